// Floats of each type as numbers to add: load, round to the type, store.
// In: bytes of elements, or a float.
// Out: the wider number that holds an element exactly, or bytes.
// Assumes: nothing. Rounds to the nearest, ties to even, subnormals included.
#pragma once

#include "base/bytes.h"
#include "base/half.h"

namespace gradwire::exchange {

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

template <std::uint16_t (*kTo)(float), float (*kFrom)(std::uint16_t), float (*kRound)(float)>
struct Half {
  using Wide = float;
  using Bits = std::uint32_t;
  static constexpr std::size_t kBytes = 2;
  static float load(const std::uint8_t* src) noexcept {
    return kFrom(gradwire::load<std::uint16_t>(src));
  }
  static float round(float value) noexcept { return kRound(value); }
  static void store(std::uint8_t* dst, float value) noexcept { gradwire::store(dst, kTo(value)); }
};
using BF16 = Half<to_bf16, from_bf16, round_to_bf16>;
using F16 = Half<to_f16, from_f16, round_to_f16>;

}  // namespace gradwire::exchange
