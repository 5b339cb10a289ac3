// Elements as words: which unsigned type holds a float dtype, and the fields in it.
// In: a float dtype.
// Out: a call with its word type; masks and shifts.
// Assumes: is_float(dtype).
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/float_format.h"

namespace gradwire::split {

/// Calls function(Word{}) with the unsigned type of the dtype's width.
template <typename Function>
decltype(auto) with_word(DType dtype, Function&& function) {
  if (dtype == DType::f32) return function(std::uint32_t{});
  if (dtype == DType::f64) return function(std::uint64_t{});
  return function(std::uint16_t{});
}

/// The sign bit's place, which is also the number of magnitude bits.
constexpr unsigned sign_shift(FloatFormat format) noexcept {
  return format.exponent_bits + format.fraction_bits;
}

template <typename Word>
constexpr Word low_mask(unsigned bits) noexcept {
  return bits >= sizeof(Word) * 8 ? static_cast<Word>(~Word{0})
                                  : static_cast<Word>((Word{1} << bits) - 1);
}

}  // namespace gradwire::split
