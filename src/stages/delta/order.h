// Elements as integers of the same order, and their differences (docs/format.md 12.2).
// In: the bits of elements.
// Out: integers modulo 2^B of which neighbours are one apart; a difference's sign and size.
// Assumes: nothing; every pattern of bits, -0.0 and NaN too, has its integer.
#pragma once

#include <cstdint>

#include "gradwire/dtype.h"

namespace gradwire::delta {

template <typename Word>
inline constexpr Word kSign = static_cast<Word>(Word{1} << (8 * sizeof(Word) - 1));

/// Floats are sign and magnitude: negative ones count down. Its own inverse.
template <typename Word>
constexpr Word ordered(Word bits, bool is_signed_magnitude) noexcept {
  const auto low = static_cast<Word>(kSign<Word> - 1);
  return (bits & kSign<Word>) != 0 && is_signed_magnitude ? static_cast<Word>(bits ^ low) : bits;
}

/// Whether the order is that of signs and magnitudes: of f8 as well, which are no floats to
/// pipelines 1 and 2.
inline bool is_signed_magnitude(DType dtype) noexcept {
  return is_float(dtype) || dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2;
}

template <typename Word>
struct Step {
  Word size = 0;  ///< 1 to 2^(B - 1), the last only if negative
  bool negative = false;
};

template <typename Word>
constexpr Step<Word> step_between(Word from, Word to) noexcept {
  const auto difference = static_cast<Word>(to - from);
  const bool negative = (difference & kSign<Word>) != 0;
  return {negative ? static_cast<Word>(-difference) : difference, negative};
}

template <typename Word>
constexpr Word step_from(Word from, const Step<Word>& step) noexcept {
  return static_cast<Word>(step.negative ? from - step.size : from + step.size);
}

template <typename Word>
constexpr bool is_step(const Step<Word>& step) noexcept {
  return step.size != 0 && (step.size < kSign<Word> || (step.size == kSign<Word> && step.negative));
}

}  // namespace gradwire::delta
