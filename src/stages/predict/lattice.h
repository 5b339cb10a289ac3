// Blocks of elements on the lattice (docs/format.md 6.3, 6.4): symbols and raw bits given integer
// guesses, and back.
// In: words of one tap, X of their guesses, scales of their kernels.
// Out: symbol, raw bits and value of each; or the words.
// Assumes: |X| < 2^31. All formulas are those of the format, in its letters. Loops have no branch
// and no table, so that compilers make vectors of them. Shifts that differ by element are products
// with powers of two, since vectors of baseline x86-64 have no other: floats hold the at most 17
// bits exactly.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "stages/predict/kernels.h"

namespace gradwire::predict {

/// 2^e, -126 <= e <= 127.
inline float power_of_two(std::int32_t e) noexcept { return std::bit_cast<float>((127 + e) << 23); }
/// floor(value 2^e) of a value of 0 to 2^24.
inline std::int32_t scaled_by(std::int32_t value, std::int32_t e) noexcept {
  return static_cast<std::int32_t>(static_cast<float>(value) * power_of_two(e));
}
/// Bits of a value of 1 to 2^24; -126 for 0.
inline std::int32_t width_of_positive(std::int32_t value) noexcept {
  return (std::bit_cast<std::int32_t>(static_cast<float>(value)) >> 23) - 126;
}

/// All ones where a condition holds; branches would keep loops from becoming vectors.
inline std::int32_t mask_of(bool condition) noexcept { return -std::int32_t{condition}; }
inline std::int32_t select(std::int32_t mask, std::int32_t yes, std::int32_t no) noexcept {
  return no ^ ((yes ^ no) & mask);
}

/// What an element is coded as, in one word: raw bits, their number, symbol.
struct CodedElement {
  std::uint32_t packed;
  std::uint32_t raw() const noexcept { return packed & 0xffff; }
  unsigned raw_bits() const noexcept { return packed >> 16 & 0xff; }
  std::uint8_t symbol() const noexcept { return static_cast<std::uint8_t>(packed >> 24); }
};

/// An element before and after its raw bits are known, in one word: exponent and the top L fraction
/// bits, sign, number of raw bits.
struct RestoredElement {
  std::int32_t packed;
  static RestoredElement pack(std::int32_t top, std::int32_t sign, std::int32_t raw_bits) noexcept {
    return {top * 256 + sign * 16 + raw_bits};
  }
  unsigned raw_bits() const noexcept { return static_cast<unsigned>(packed & 15); }
  void add(std::uint32_t raw) noexcept { packed += static_cast<std::int32_t>(raw << 8); }
  std::int32_t top() const noexcept { return packed >> 8; }
  std::int32_t sign() const noexcept { return packed >> 4 & 1; }
};

template <typename Word>
class Lattice {
 public:
  explicit Lattice(const KernelRun& run)
      : escape_(static_cast<std::int32_t>(2 * kernel_reach(run.taps->effort) + 15)),
        reach_(static_cast<std::int32_t>(kernel_reach(run.taps->effort))),
        fraction_(static_cast<std::int32_t>(kernel_fraction(run.dtype))),
        most_exponent_((1 << float_format(run.dtype).exponent_bits) - 2),
        base_(run.taps->base),
        sign_shift_(float_format(run.dtype).bits() - 1),
        below_(float_format(run.dtype).fraction_bits - kernel_fraction(run.dtype)),
        dropped_mask_(static_cast<Word>(
            (Word{1} << (float_format(run.dtype).fraction_bits - run.parameters->kept)) - 1)),
        repeated_mask_(static_cast<Word>(((Word{1} << float_format(run.dtype).fraction_bits) - 1) &
                                         ~dropped_mask_)),
        half_(run.parameters->kept == kernel_fraction(run.dtype)) {}

  std::uint8_t escape() const noexcept { return static_cast<std::uint8_t>(escape_); }

  void encode(const Tap& tap, const Word* words, const std::int32_t* sums,
              const std::int32_t* scales, std::size_t n, CodedElement* coded,
              std::int16_t* values) const noexcept {
    const Lattice lattice = *this;  // not reached by what is written
    const std::int32_t tau = tap.tau;
    const unsigned shift = tap.h - 1;
    for (std::size_t j = 0; j < n; ++j) {
      const Parts parts = lattice.parts_of(words[j]);
      coded[j] = lattice.symbol_of(parts, lattice.guess(sums[j], shift), tau + scales[j]);
      values[j] = lattice.value(parts, scales[j]);
    }
  }

  /// All of the elements but their raw bits.
  void expect(const Tap& tap, const std::uint8_t* symbols, const std::int32_t* sums,
              const std::int32_t* scales, std::size_t n, RestoredElement* out) const noexcept {
    const Lattice lattice = *this;
    const std::int32_t tau = tap.tau;
    const unsigned shift = tap.h - 1;
    for (std::size_t j = 0; j < n; ++j)
      out[j] = lattice.element_of(symbols[j], lattice.guess(sums[j], shift), tau + scales[j]);
  }

  /// Words and values, without low bits; false when an element is no number of the format.
  bool settle(const RestoredElement* elements, const std::int32_t* scales, std::size_t n,
              Word* words, std::int16_t* values) const noexcept {
    const Lattice lattice = *this;
    std::int32_t beyond = 0;
    for (std::size_t j = 0; j < n; ++j) {
      const std::int32_t top = elements[j].top();
      const std::int32_t sign = elements[j].sign();
      beyond |= top >> 15;  // exponent and L fraction bits are 15 in all dtypes
      words[j] =
          static_cast<Word>(static_cast<Word>(static_cast<Word>(sign) << lattice.sign_shift_) |
                            static_cast<Word>(static_cast<Word>(top) << lattice.below_));
      values[j] = lattice.value({top & 0x7fff, -sign, 0}, scales[j]);
    }
    return beyond == 0;
  }

  /// The bits that an escape repeats must be those of its record.
  bool agrees(Word listed, Word repeated) const noexcept {
    return ((listed ^ repeated) & repeated_mask_) == 0;
  }

  std::int16_t value_of(Word word, std::int32_t scale) const noexcept {
    return value(parts_of(word), scale);
  }

 private:
  /// Exponent and the top L fraction bits; masks: negative, with bits that are not coded.
  struct Parts {
    std::int32_t top;
    std::int32_t negative;
    std::int32_t rest;
  };
  /// Lattice position of a guess; masks: the nearer neighbour lies below, so that differences are
  /// negated; negative.
  struct Guess {
    std::int32_t g;
    std::int32_t folded;
    std::int32_t negative;
  };

  std::int32_t one() const noexcept { return std::int32_t{1} << fraction_; }

  Parts parts_of(Word word) const noexcept {
    const auto top = static_cast<std::int32_t>(static_cast<Word>(word >> below_)) & 0x7fff;
    const auto sign = static_cast<std::int32_t>(word >> sign_shift_);
    return {top, -sign, mask_of((word & dropped_mask_) != 0)};
  }

  std::int32_t step_exponent(std::int32_t step) const noexcept {
    return std::clamp(step, 1, most_exponent_ - fraction_);
  }

  /// v of an element that later taps are guessed from.
  std::int16_t value(Parts parts, std::int32_t scale) const noexcept {
    const std::int32_t s = std::clamp((parts.top >> fraction_) - base_ - scale, -9, 7);
    const std::int32_t significand = (one() + (parts.top & (one() - 1))) >> (fraction_ - 7);
    const std::int32_t v = scaled_by(significand, s);
    return static_cast<std::int16_t>((v ^ parts.negative) - parts.negative);
  }

  Guess guess(std::int32_t x, unsigned shift) const noexcept {
    const std::int32_t y = std::min(std::abs(x) >> shift, 65535);
    const std::int32_t excess = std::max(0, width_of_positive(y) - (fraction_ + 2));
    const std::int32_t half_ulp = mask_of(y >> (fraction_ + 1) != 0) & half_;
    const std::int32_t m2 = (excess << (fraction_ + 1)) + scaled_by(y, -excess) + half_ulp;
    const std::int32_t g = m2 >> 1;
    return {g, mask_of(g >= 8) & ((m2 & 1) - 1), x >> 31};
  }

  CodedElement symbol_of(Parts parts, Guess guess, std::int32_t step) const noexcept {
    const std::int32_t fraction = parts.top & (one() - 1);
    const std::int32_t d = (parts.top >> fraction_) - step_exponent(step);
    // Below the step all bits are shifted out (m = 0); above, each octave adds 2^L positions.
    const std::int32_t m = scaled_by(one() + fraction, std::clamp(d, -1, fraction_) - fraction_) +
                           (std::max(d - fraction_, 0) << fraction_);
    const std::int32_t cross = parts.negative ^ guess.negative;
    const std::int32_t away = (m ^ cross) - guess.g;  // m ^ -1 is -1 - m
    const std::int32_t delta = (away ^ guess.folded) - guess.folded;
    const std::int32_t near = 2 * reach_ - 1 - 2 * d - cross;
    const std::int32_t is_near = mask_of(m == 0);
    const std::int32_t distance = select(is_near, -d, std::abs(delta));
    const std::int32_t fits = mask_of(distance <= select(is_near, 7, reach_)) & ~parts.rest;
    const std::int32_t symbol = select(fits, select(is_near, near, delta + reach_), escape_);
    const std::int32_t raw_bits = fraction_ - (std::clamp(d, 0, fraction_) & fits);
    const std::int32_t raw = fraction & (scaled_by(1, raw_bits) - 1);
    return {static_cast<std::uint32_t>(symbol << 24 | raw_bits << 16 | raw)};
  }

  RestoredElement element_of(std::int32_t symbol, Guess guess, std::int32_t step) const noexcept {
    const std::int32_t near = symbol - 2 * reach_ - 1;
    const std::int32_t delta = symbol - reach_;
    const std::int32_t far = guess.g + ((delta ^ guess.folded) - guess.folded);
    const std::int32_t is_far = near >> 31;
    const std::int32_t k = select(is_far, far, -(near & 1));
    const std::int32_t z = (near >> 1) & ~is_far;
    const std::int32_t below = k >> 31;
    const std::int32_t m = k ^ below;
    const std::int32_t r = std::clamp(fraction_ + 1 - width_of_positive(m), 0, fraction_);
    const std::int32_t top =
        scaled_by(m, r) + ((step_exponent(step) + fraction_ - 1 - r - z) << fraction_);
    // Of an escape the raw bits are what stands below the exponent.
    const std::int32_t coded = mask_of(symbol != escape_);
    return RestoredElement::pack(top & coded, (guess.negative ^ below) & coded & 1,
                                 select(coded, r, fraction_));
  }

  std::int32_t escape_;
  std::int32_t reach_;
  std::int32_t fraction_;  ///< L
  std::int32_t most_exponent_;
  std::int32_t base_;
  unsigned sign_shift_;
  unsigned below_;  ///< W - L
  Word dropped_mask_;
  Word repeated_mask_;
  std::int32_t half_;  ///< 1 where no low bits follow
};

}  // namespace gradwire::predict
