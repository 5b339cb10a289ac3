// One value on the lattice (docs/format.md 6.3, 6.4): symbol and raw bits given an integer guess,
// and back.
// In: a word, X of its guess, the exponent field of the lattice step.
// Out: symbol, raw bits; or the word.
// Assumes: |X| < 2^31. All formulas are those of the format, in its letters.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "base/counted.h"
#include "stages/predict/kernels.h"

namespace gradwire::predict {

struct Coded {
  std::uint8_t symbol;
  std::uint8_t raw_bits;
  std::uint16_t raw;
};

/// Lattice position of a guess.
struct Guess {
  std::int32_t g;  ///< whole steps
  bool folded;     ///< the nearer neighbour lies below: differences are negated
  bool negative;
};

template <typename Word>
class Lattice {
 public:
  explicit Lattice(const KernelRun& run)
      : escape(static_cast<std::uint8_t>(2 * kernel_reach(run.taps->effort) + 15)),
        low_bits(run.parameters->kept - kernel_fraction(run.dtype)),
        format_(float_format(run.dtype)),
        fraction_(kernel_fraction(run.dtype)),
        dropped_(format_.fraction_bits - run.parameters->kept),
        below_(format_.fraction_bits - fraction_),
        reach_(static_cast<std::int32_t>(kernel_reach(run.taps->effort))),
        base_(run.taps->base),
        counted_(run.parameters->counted),
        counts_{low_bits, run.parameters->low_count} {}

  /// v of an element that later taps are guessed from.
  std::int32_t value(Word word, std::int32_t scale) const noexcept {
    const std::int32_t top = magnitude(word);
    const std::int32_t s = std::clamp((top >> fraction_) - base_ - scale, -9, 7);
    const std::int32_t significand = (one() + (top & (one() - 1))) >> (fraction_ - 7);
    const std::int32_t v = s == -9 ? 0 : (significand << std::max(8 + s, 0)) >> 8;
    return negative(word) ? -v : v;
  }

  Guess guess(std::int32_t x, unsigned h) const noexcept {
    const std::int32_t y = std::min(std::abs(x) >> (h - 1), 65535);
    const int excess = std::max(0, static_cast<int>(std::bit_width(static_cast<std::uint32_t>(y))) -
                                       static_cast<int>(fraction_ + 2));
    const bool half_ulp = (y >> (fraction_ + 1)) != 0 && low_bits == 0;
    const std::int32_t m2 = (excess << (fraction_ + 1)) + (y >> excess) + half_ulp;
    const std::int32_t g = m2 >> 1;
    return {g, g >= 8 && (m2 & 1) == 0, x < 0};
  }

  Coded encode(Word word, const Guess& guess, std::int32_t step) const noexcept {
    const std::int32_t e_step = step_exponent(step);
    const std::int32_t top = magnitude(word);
    const std::int32_t fraction = top & (one() - 1);
    const std::int32_t d = (top >> fraction_) - e_step;
    const auto width = static_cast<std::int32_t>(fraction_);
    // Below the step all bits are shifted out (m = 0); above, each octave adds 2^L positions.
    const std::int32_t m = ((one() + fraction) >> (width - std::clamp(d, -1, width))) +
                           (std::max(d - width, 0) << width);
    std::int32_t r = width - std::clamp(d, 0, width);
    const bool cross = negative(word) != guess.negative;
    std::int32_t delta = (cross ? -1 - m : m) - guess.g;
    if (guess.folded) delta = -delta;
    const std::int32_t near = 2 * reach_ + 1 + 2 * (-1 - d) + cross;
    const bool fits =
        (m > 0 ? std::abs(delta) <= reach_ : d >= -7) && (word & ((Word{1} << dropped_) - 1)) == 0;
    const std::int32_t coded = m > 0 ? delta + reach_ : near;
    const std::int32_t symbol = fits ? coded : escape;
    r = fits ? r : width;
    return {static_cast<std::uint8_t>(symbol), static_cast<std::uint8_t>(r),
            static_cast<std::uint16_t>(fraction & ((1 << r) - 1))};
  }

  bool decode(std::uint8_t symbol, const Guess& guess, std::int32_t step, SlackBitReader& raw,
              Word& word) const noexcept {
    if (symbol == escape) {
      word = static_cast<Word>(static_cast<Word>(raw.get(fraction_)) << below_);
      return true;
    }
    const std::int32_t near = std::int32_t{symbol} - 2 * reach_ - 1;
    std::int32_t k = 0;
    std::int32_t z = 0;
    if (near >= 0) {
      k = -(near & 1);
      z = near >> 1;
    } else {
      const std::int32_t delta = std::int32_t{symbol} - reach_;
      k = guess.g + (guess.folded ? -delta : delta);
    }
    const std::int32_t m = k < 0 ? -1 - k : k;
    const bool sign = guess.negative != (k < 0);
    const auto width = static_cast<std::int32_t>(fraction_);
    const std::int32_t r = m == 0 ? width
                                  : std::max(0, width + 1 -
                                                    static_cast<std::int32_t>(std::bit_width(
                                                        static_cast<std::uint32_t>(m))));
    const auto bits = static_cast<std::int32_t>(raw.get(static_cast<unsigned>(r)));
    const std::int32_t top = (m << r | bits) + (step_exponent(step) + width - 1 - r - z) * one();
    if (top < 0 || top >> (format_.exponent_bits + fraction_) != 0) return false;
    word = static_cast<Word>(static_cast<Word>(static_cast<Word>(sign) << (format_.bits() - 1)) |
                             static_cast<Word>(static_cast<Word>(top) << below_));
    return true;
  }

  /// Notes the low bits of a word: as a record, or with counted as bits and the count returned.
  std::uint8_t put_low(Word word, Word& record, BitWriter& raw) const noexcept {
    record = static_cast<Word>((word >> dropped_) & ((Word{1} << low_bits) - 1));
    return counted_ ? static_cast<std::uint8_t>(put_counted(record, counts_, raw))
                    : std::uint8_t{0};
  }

  bool get_low(const KernelInput<Word>& input, std::size_t k, SlackBitReader& raw,
               Word& word) const noexcept {
    std::uint64_t record = 0;
    if (!counted_) {
      record = input.low[k];
    } else if (!get_counted(input.second[k], counts_, raw, record)) {
      return false;
    }
    word = static_cast<Word>(word | static_cast<Word>(record << dropped_));
    return true;
  }

  /// The bits that an escape repeats must be those of its record.
  bool agrees(Word listed, Word repeated) const noexcept {
    const Word mask =
        static_cast<Word>(((Word{1} << format_.fraction_bits) - 1) & ~((Word{1} << dropped_) - 1));
    return ((listed ^ repeated) & mask) == 0;
  }

  const std::uint8_t escape;
  const unsigned low_bits;

 private:
  std::int32_t one() const noexcept { return std::int32_t{1} << fraction_; }
  bool negative(Word word) const noexcept { return word >> (format_.bits() - 1) != 0; }
  /// Exponent and the top L fraction bits.
  std::int32_t magnitude(Word word) const noexcept {
    const Word mask = static_cast<Word>((Word{1} << (format_.bits() - 1)) - 1);
    return static_cast<std::int32_t>((word & mask) >> below_);
  }
  std::int32_t step_exponent(std::int32_t step) const noexcept {
    return std::clamp(step, 1,
                      (1 << format_.exponent_bits) - 2 - static_cast<std::int32_t>(fraction_));
  }

  FloatFormat format_;
  unsigned fraction_;  ///< L
  unsigned dropped_;   ///< W - w
  unsigned below_;     ///< W - L
  std::int32_t reach_;
  std::int32_t base_;
  bool counted_;
  CountShape counts_;
};

}  // namespace gradwire::predict
