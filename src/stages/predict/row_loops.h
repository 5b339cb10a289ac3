// Inner loops of the scaled predictor over one block of a row.
// In: words, or symbols and records, and the block's predictions and guesses.
// Out: symbols and records, or words.
// Assumes: as scaled.h. Straight loops without branches, left to the compiler's vectoriser: what
// they need is held by value, and shifts are constants where words have 16 bits, since shifts by a
// variable would make such loops work in 32.
#pragma once

#include <utility>

#include "stages/predict/scaled_rows.h"

namespace gradwire::predict {

template <unsigned kValue>
using Constant = std::integral_constant<unsigned, kValue>;

/// Calls function(shift, is_signed), x_shift as a constant for 16-bit words and is_signed as a
/// std::bool_constant.
template <typename Word, typename Function>
void with_layout(const Fields<Word>& fields, const Function& function) {
  const auto with_sign = [&](auto shift) {
    return fields.signed_symbols ? function(shift, std::true_type())
                                 : function(shift, std::false_type());
  };
  if constexpr (sizeof(Word) == 2) {
    const auto with_constant =
        [&]<unsigned... kShifts>(std::integer_sequence<unsigned, kShifts...>) {
          return ((fields.x_shift == kShifts && (with_sign(Constant<kShifts>()), true)) || ...);
        };
    // Those of bf16 and f16 with 0 to 2 fraction bits in the symbol.
    if (with_constant(std::integer_sequence<unsigned, 5, 6, 7, 8, 9, 10>())) return;
  }
  with_sign(fields.x_shift);
}

/// Raw records of n words: rest bits, with the sign below them unless symbols have it.
template <typename Word>
void take_records(const Fields<Word>& fields, const Word* words, std::size_t n, Word* records) {
  const unsigned dropped = fields.dropped;
  const Word mask = fields.rest_mask;
  const auto loop = [&](auto rest) {
    if (fields.signed_symbols) {
      for (std::size_t j = 0; j < n; ++j) records[j] = rest(words[j]);
      return;
    }
    for (std::size_t j = 0; j < n; ++j) {
      const Word g = rest(words[j]);
      records[j] = static_cast<Word>(static_cast<Word>(g << 1) | (words[j] >> fields.sign_shift));
    }
  };
  if (dropped == 0) return loop([mask](Word word) { return static_cast<Word>(word & mask); });
  loop([mask, dropped](Word word) { return static_cast<Word>((word >> dropped) & mask); });
}

/// Symbols of a block.
template <typename Word, bool kSigned, typename Shift>
class ApplyLoop {
 public:
  ApplyLoop(const ScaledRun& run, bool mapped, Shift shift)
      : shift_(shift),
        window_(static_cast<Word>(run.parameters->window)),
        escape_(static_cast<Word>(run.parameters->escape_symbol())),
        zero_(static_cast<Word>(run.parameters->has_zero || mapped
                                    ? run.parameters->zero_symbol()
                                    : run.parameters->escape_symbol())),
        dropped_mask_(Fields<Word>(run).dropped_mask) {}

  void operator()(const Word* words, std::size_t n, RowBlock<Word>& block,
                  std::uint8_t* symbols) const noexcept {
    using F = Fields<Word>;
    const ApplyLoop loop = *this;
    const Word* const predictions = block.predictions.data();
    const Word* const guesses = block.guesses.data();
    Word* const wide = block.symbols.data();
    for (std::size_t j = 0; j < n; ++j) {
      const Word word = words[j];
      const auto x = static_cast<Word>(static_cast<Word>(word & F::magnitude_mask) >> loop.shift_);
      const auto t = static_cast<Word>(x - predictions[j]);
      const auto sign = static_cast<Word>((word >> F::sign_shift) ^ guesses[j]);
      const auto coded = kSigned ? static_cast<Word>(static_cast<Word>(t << 1) + sign) : t;
      const bool fits = (t < loop.window_) & ((word & loop.dropped_mask_) == 0);
      const Word symbol = fits ? coded : loop.escape_;
      wide[j] = word == 0 ? loop.zero_ : symbol;
    }
    for (std::size_t j = 0; j < n; ++j) symbols[j] = static_cast<std::uint8_t>(wide[j]);
  }

 private:
  Shift shift_;
  Word window_, escape_, zero_, dropped_mask_;
};

/// Words of a block; those of escapes are to be mended.
template <typename Word, bool kSigned, typename Shift>
class RestoreLoop {
 public:
  RestoreLoop(const ScaledRun& run, Shift shift)
      : shift_(shift),
        zero_(static_cast<Word>(run.parameters->zero_symbol())),
        x_mask_(static_cast<Word>(Fields<Word>(run).x_mask)),
        unit_(static_cast<Word>(Word{1} << Fields<Word>(run).dropped)) {}

  void operator()(const std::uint8_t* symbols, const Word* records, std::size_t n,
                  RowBlock<Word>& block, Word* words) const noexcept {
    const RestoreLoop loop = *this;
    const Word* const predictions = block.predictions.data();
    const Word* const guesses = block.guesses.data();
    Word* const wide = block.symbols.data();
    for (std::size_t j = 0; j < n; ++j) wide[j] = symbols[j];
    for (std::size_t j = 0; j < n; ++j) {
      const Word symbol = wide[j];
      const Word record = records[j];
      const auto t = kSigned ? static_cast<Word>(symbol >> 1) : symbol;
      const auto sign = static_cast<Word>((kSigned ? symbol & 1 : record & 1) ^ guesses[j]);
      const auto rest = kSigned ? record : static_cast<Word>(record >> 1);
      const auto x = static_cast<Word>(static_cast<Word>(t + predictions[j]) & loop.x_mask_);
      const auto word = static_cast<Word>(static_cast<Word>(sign << Fields<Word>::sign_shift) |
                                          static_cast<Word>(x << loop.shift_) |
                                          static_cast<Word>(rest * loop.unit_));
      words[j] = symbol == loop.zero_ ? Word{0} : word;
    }
  }

 private:
  Shift shift_;
  Word zero_, x_mask_, unit_;
};

}  // namespace gradwire::predict
