// Magnitudes as integers.
// In: a float, or a bound.
// Out: 31 bits that order magnitudes: zero, subnormal, normal, infinite, NaN.
// Assumes: IEEE 754 binary32.
#pragma once

#include <bit>
#include <cstdint>

namespace gradwire::lossy {

inline constexpr std::uint32_t kMagnitudeMask = 0x7fffffff;
inline constexpr std::uint32_t kInfinity = 0x7f800000;

inline std::uint32_t magnitude(float value) noexcept {
  return std::bit_cast<std::uint32_t>(value) & kMagnitudeMask;
}

/// The lowest magnitude that is at least `bound`, which is not negative and no NaN.
inline std::uint32_t magnitude_from(double bound) noexcept {
  constexpr double kLargest = 0x1.fffffep127;
  if (bound > kLargest) return kInfinity;
  const auto nearest = static_cast<float>(bound);
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest) & kMagnitudeMask;
  return static_cast<double>(nearest) < bound ? bits + 1 : bits;
}

/// The lowest magnitude above `bound`.
inline std::uint32_t magnitude_above(double bound) noexcept {
  const std::uint32_t bits = magnitude_from(bound);
  return static_cast<double>(std::bit_cast<float>(bits)) == bound && bits < kInfinity ? bits + 1
                                                                                      : bits;
}

}  // namespace gradwire::lossy
