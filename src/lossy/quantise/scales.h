// Sums over a bucket of values.
// In: values.
// Out: sums of magnitudes or squares.
// Assumes: nothing. Sums are in double, in one order for every CPU.
#pragma once

#include <cstddef>

namespace gradwire::lossy {

/// Not finite if and only if a value is not.
double sum_of_magnitudes(const float* values, std::size_t n) noexcept;
double sum_of_squares(const float* values, std::size_t n) noexcept;

}  // namespace gradwire::lossy
