// Blocks of elements on the lattice (docs/format.md 6.3, 6.4): symbols and raw bits given integer
// guesses, and back.
// In: words of one tap, X of their guesses, scales of their kernels.
// Out: symbol, raw bits and value of each; or the words.
// Assumes: |X| < 2^31. All formulas are those of the format, in its letters. Loops have no branch,
// no table and no shift that differs by element, so that compilers make vectors of them for
// baseline x86-64 too. The lattice is linear between powers of two, as a float's bits are: what
// the format shifts is read off the bits of small integers as floats, which hold them exactly.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "stages/predict/kernels.h"

namespace gradwire::predict {

inline std::int32_t float_bits(std::int32_t value) noexcept {
  return std::bit_cast<std::int32_t>(static_cast<float>(value));
}
/// The float of some bits, truncated.
inline std::int32_t from_float_bits(std::int32_t bits) noexcept {
  return static_cast<std::int32_t>(std::bit_cast<float>(bits));
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
        most_step_(
            static_cast<float>((1 << float_format(run.dtype).exponent_bits) - 2 - fraction_)),
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
      coded[j] = lattice.symbol_of(parts, lattice.guess(sums[j], shift),
                                   lattice.step_exponent(tau + scales[j]));
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
      out[j] = lattice.element_of(symbols[j], lattice.guess(sums[j], shift),
                                  lattice.step_exponent(tau + scales[j]));
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

  /// Exponent field of the lattice step, in bounds; floats, since vectors of x86-64 have no minimum
  /// of 32-bit integers.
  std::int32_t step_exponent(std::int32_t step) const noexcept {
    const auto least = static_cast<float>(step) < 1.0F ? 1.0F : static_cast<float>(step);
    return static_cast<std::int32_t>(least > most_step_ ? most_step_ : least);
  }

  /// v of an element that later taps are guessed from.
  std::int16_t value(Parts parts, std::int32_t scale) const noexcept {
    const std::int32_t relative = (parts.top - ((base_ + scale) << fraction_)) >> (fraction_ - 7);
    const std::int32_t exponent = relative >> 7;
    const std::int32_t s = select(mask_of(exponent > 7), 7, exponent);
    const std::int32_t v =
        from_float_bits(((s + 134) << 23 | (relative & 127) << 16) & mask_of(s > -9));
    return static_cast<std::int16_t>((v ^ parts.negative) - parts.negative);
  }

  Guess guess(std::int32_t x, unsigned shift) const noexcept {
    const std::int32_t y = std::abs(x) >> shift;
    const auto most = static_cast<float>(y) > 65535.0F ? 65535.0F : static_cast<float>(y);
    // From 2^(L + 1) on, L + 1 bits below the first one count, and each octave adds 2^(L + 1).
    const std::int32_t high = (std::bit_cast<std::int32_t>(most) >> (22 - fraction_)) -
                              ((127 + fraction_) << (fraction_ + 1)) + half_;
    const std::int32_t m2 = select(mask_of(y > 2 * one() - 1), high, y);
    const std::int32_t g = m2 >> 1;
    return {g, mask_of(g > 7) & ((m2 & 1) - 1), x >> 31};
  }

  CodedElement symbol_of(Parts parts, Guess guess, std::int32_t step) const noexcept {
    const std::int32_t fraction = parts.top & (one() - 1);
    const std::int32_t above = parts.top - (step << fraction_);  // d, and the fraction
    const std::int32_t d = above >> fraction_;
    const std::int32_t is_near = above >> 31;
    const std::int32_t is_wide = mask_of(above > ((fraction_ + 1) << fraction_) - 1);
    // Below the step m = 0; up to L octaves above it, bits are shifted out; beyond, each octave
    // adds 2^L positions.
    const std::int32_t bits = (above + (127 << fraction_)) << (23 - fraction_);
    const std::int32_t m = from_float_bits(bits & ~(is_near | is_wide)) +
                           ((above - ((fraction_ - 1) << fraction_)) & is_wide);
    const std::int32_t cross = parts.negative ^ guess.negative;
    const std::int32_t away = (m ^ cross) - guess.g;  // m ^ -1 is -1 - m
    const std::int32_t delta = (away ^ guess.folded) - guess.folded;
    const std::int32_t near = 2 * reach_ - 1 - 2 * d - cross;
    const std::int32_t distance = select(is_near, -d, std::abs(delta));
    const std::int32_t beyond = mask_of(distance > select(is_near, 7, reach_)) | parts.rest;
    const std::int32_t symbol = select(beyond, escape_, select(is_near, near, delta + reach_));
    const std::int32_t raw_bits = fraction_ - (select(is_wide, fraction_, d) & ~is_near & ~beyond);
    const std::int32_t raw = fraction & (from_float_bits((127 + raw_bits) << 23) - 1);
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
    const std::int32_t bits = float_bits(m);
    const std::int32_t is_wide = mask_of(m > 2 * one() - 1);
    const std::int32_t is_zero = mask_of(m == 0);
    const std::int32_t inside =
        (bits >> (23 - fraction_)) - (127 << fraction_) + (((126 - z) << fraction_) & is_zero);
    const std::int32_t top =
        (step << fraction_) + select(is_wide, m + ((fraction_ - 1) << fraction_), inside);
    const std::int32_t r = select(is_zero, fraction_, fraction_ + 127 - (bits >> 23)) & ~is_wide;
    // Of an escape the raw bits are all that stands in its place.
    const std::int32_t coded = mask_of(symbol != escape_);
    return RestoredElement::pack(top & coded, (guess.negative ^ below) & coded & 1,
                                 select(coded, r, fraction_));
  }

  std::int32_t escape_;
  std::int32_t reach_;
  std::int32_t fraction_;  ///< L
  float most_step_;
  std::int32_t base_;
  unsigned sign_shift_;
  unsigned below_;  ///< W - L
  Word dropped_mask_;
  Word repeated_mask_;
  std::int32_t half_;  ///< 1 where no low bits follow
};

}  // namespace gradwire::predict
