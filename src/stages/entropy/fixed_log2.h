// Logarithms for cost estimates, in integers so that every machine makes the same choices.
// In: a positive integer.
// Out: its binary logarithm in units of 2^-16, rounded down.
// Assumes: the argument is at least 1; beyond its 12 highest bits it is cut off.
#pragma once

#include <cstdint>

namespace gradwire::entropy {

inline constexpr unsigned kLog2Bits = 16;

std::uint32_t fixed_log2(std::uint64_t value);

}  // namespace gradwire::entropy
