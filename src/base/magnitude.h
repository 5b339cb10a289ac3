// Magnitudes of floats as integers, which are ordered as they are.
// In: floats.
// Out: the bits of the largest magnitude; whether all are finite.
// Assumes: nothing.
#pragma once

#include <cstdint>
#include <span>

namespace gradwire {

inline constexpr std::uint32_t kInfinityBits = 0x7f800000;

/// The largest magnitude as the bits of a float; kInfinityBits or more if a value is NaN or
/// infinite. 0 for no values.
std::uint32_t largest_magnitude_bits(std::span<const float> values) noexcept;

inline bool all_finite(std::span<const float> values) noexcept {
  return largest_magnitude_bits(values) < kInfinityBits;
}

}  // namespace gradwire
