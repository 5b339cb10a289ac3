// Floats of each type as numbers to add: load, round to the type, store.
// In: bytes of elements, or a float.
// Out: the wider number that holds an element exactly, or bytes.
// Assumes: nothing. Rounds to the nearest, ties to even, subnormals included.
#pragma once

#include <bit>

#include "base/bytes.h"

namespace gradwire::exchange {

/// A NaN becomes the quiet one that PyTorch makes.
inline std::uint16_t to_bf16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fc0;
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float from_bf16(std::uint16_t half) noexcept {
  return std::bit_cast<float>(std::uint32_t{half} << 16);
}

/// What is too large becomes infinite, a NaN the quiet one of its sign.
inline std::uint16_t to_f16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<std::uint16_t>(sign | 0x7e00);
  if (magnitude >= 0x477ff000) return static_cast<std::uint16_t>(sign | 0x7c00);
  if (magnitude < 0x38800000) {  // subnormal: adding 1/2 rounds to multiples of 2^-24
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(sum) - 0x3f000000));
  }
  const std::uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000) >> 13));
}

inline float from_f16(std::uint16_t half) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000) << 16;
  const std::uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00)
    return std::bit_cast<float>(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
  if (magnitude >= 0x400) return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000));
  const float value = static_cast<float>(magnitude) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
}

template <typename Value, typename Word>
struct Whole {  ///< f32 and f64: they are their own wider number
  using Wide = Value;
  using Bits = Word;
  static constexpr std::size_t kBytes = sizeof(Value);
  static Value load(const std::uint8_t* src) noexcept { return gradwire::load<Value>(src); }
  static Value round(Value value) noexcept { return value; }
  static void store(std::uint8_t* dst, Value value) noexcept { gradwire::store(dst, value); }
};
using F32 = Whole<float, std::uint32_t>;
using F64 = Whole<double, std::uint64_t>;

template <std::uint16_t (*kTo)(float), float (*kFrom)(std::uint16_t)>
struct Half {
  using Wide = float;
  using Bits = std::uint32_t;
  static constexpr std::size_t kBytes = 2;
  static float load(const std::uint8_t* src) noexcept {
    return kFrom(gradwire::load<std::uint16_t>(src));
  }
  static float round(float value) noexcept { return kFrom(kTo(value)); }
  static void store(std::uint8_t* dst, float value) noexcept { gradwire::store(dst, kTo(value)); }
};
using BF16 = Half<to_bf16, from_bf16>;
using F16 = Half<to_f16, from_f16>;

}  // namespace gradwire::exchange
