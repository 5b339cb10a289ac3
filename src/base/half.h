// bf16 and f16 from floats and back.
// In: a float, or the bits of a half type.
// Out: the bits of the half type, or the float that it stands for.
// Assumes: nothing. Rounds to the nearest, ties to even, subnormals included.
#pragma once

#include <bit>
#include <cstdint>

namespace gradwire {

// Without branches, so that loops over them become vectors: a select of what each case gives.

/// `yes` where a condition holds.
inline std::uint32_t choose(bool condition, std::uint32_t yes, std::uint32_t no) noexcept {
  const std::uint32_t mask = 0 - std::uint32_t{condition};
  return no ^ ((yes ^ no) & mask);
}

/// A value as bf16 has it. A NaN becomes the quiet one that PyTorch makes.
inline float round_to_bf16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto magnitude = static_cast<std::int32_t>(bits & 0x7fffffff);
  const std::uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
  return std::bit_cast<float>(choose(magnitude > 0x7f800000, 0x7fc00000, rounded));
}

inline std::uint16_t to_bf16(float value) noexcept {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(round_to_bf16(value)) >> 16);
}

inline float from_bf16(std::uint16_t half) noexcept {
  return std::bit_cast<float>(std::uint32_t{half} << 16);
}

/// A value as f16 has it. What is too large becomes infinite, a NaN the quiet one of its sign.
inline float round_to_f16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits & 0x80000000;
  const std::uint32_t magnitude = bits & 0x7fffffff;
  const auto order = static_cast<std::int32_t>(magnitude);
  // Subnormals: beside 1/2 a float has steps of 2^-24.
  const float small = std::bit_cast<float>(choose(order < 0x38800000, magnitude, 0));
  const float stepped = (small + 0.5F) - 0.5F;
  std::uint32_t rounded = (magnitude + 0xfff + (magnitude >> 13 & 1)) & 0xffffe000;
  rounded = choose(order < 0x38800000, std::bit_cast<std::uint32_t>(stepped), rounded);
  rounded = choose(order >= 0x477ff000, 0x7f800000, rounded);
  rounded = choose(order > 0x7f800000, 0x7fc00000, rounded);
  return std::bit_cast<float>(sign | rounded);
}

inline std::uint16_t to_f16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(round_to_f16(value));
  const std::uint32_t magnitude = bits & 0x7fffffff;
  const auto order = static_cast<std::int32_t>(magnitude);
  const float small = std::bit_cast<float>(choose(order < 0x38800000, magnitude, 0));
  std::uint32_t half = (magnitude - 0x38000000) >> 13;
  half = choose(order < 0x38800000,
                static_cast<std::uint32_t>(static_cast<std::int32_t>(small * 0x1p24F)), half);
  half = choose(order >= 0x7f800000, 0x7c00 | (magnitude >> 13 & 0x200), half);
  return static_cast<std::uint16_t>(bits >> 16 & 0x8000) | static_cast<std::uint16_t>(half);
}

inline float from_f16(std::uint16_t half) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000) << 16;
  const std::int32_t order = half & 0x7fff;
  const auto magnitude = static_cast<std::uint32_t>(order) << 13;
  const float small = static_cast<float>(order) * 0x1p-24F;
  std::uint32_t wide = magnitude + 0x38000000;
  wide = choose(order < 0x400, std::bit_cast<std::uint32_t>(small), wide);
  wide = choose(order >= 0x7c00, magnitude + 0x70000000, wide);
  return std::bit_cast<float>(sign | wide);
}

}  // namespace gradwire
