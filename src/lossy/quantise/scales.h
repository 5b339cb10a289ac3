// Magnitudes of a bucket of values.
// In: values.
// Out: their largest magnitude, sums of magnitudes or squares.
// Assumes: nothing. Sums are in double, in one order for every CPU.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gradwire::lossy {

constexpr std::uint32_t kInfinityBits = 0x7f800000;

/// The largest magnitude as the bits of a float; kInfinityBits or more if a value is NaN or
/// infinite. 0 for no values.
std::uint32_t largest_magnitude_bits(const float* values, std::size_t n) noexcept;

/// Not finite if and only if a value is not.
double sum_of_magnitudes(const float* values, std::size_t n) noexcept;
double sum_of_squares(const float* values, std::size_t n) noexcept;

}  // namespace gradwire::lossy
