// Inner loops of the scaled predictor: one row at a time, and element by element along taps.
// In: a run and a part of it that lies in one row.
// Out: symbols and records, or words.
// Assumes: as scaled.h. Straight loops without branches, left to the compiler's vectoriser.
#pragma once

#include <algorithm>
#include <array>
#include <type_traits>
#include <vector>

#include "stages/predict/scaled.h"

namespace gradwire::predict {

template <typename Word>
constexpr Word mask_of(unsigned bits) noexcept {
  return bits >= sizeof(Word) * 8 ? static_cast<Word>(~Word{0})
                                  : static_cast<Word>((Word{1} << bits) - 1);
}

/// Where the parts of a word lie for given parameters.
template <typename Word>
struct Fields {
  explicit Fields(const ScaledRun& run) noexcept
      : sign_shift(run.format.exponent_bits + run.format.fraction_bits),
        x_bits(run.format.exponent_bits + run.parameters->step_log2),
        x_shift(run.format.fraction_bits - run.parameters->step_log2),
        dropped(run.format.fraction_bits - run.parameters->kept),
        signed_symbols(run.parameters->sign_mode != SignMode::raw),
        magnitude_mask(mask_of<Word>(sign_shift)),
        rest_mask(mask_of<Word>(run.parameters->rest_bits())),
        dropped_mask(mask_of<Word>(dropped)),
        x_mask((1 << x_bits) - 1) {}

  std::int32_t x(Word word) const noexcept {
    return static_cast<std::int32_t>((word & magnitude_mask) >> x_shift);
  }
  bool exact(Word word) const noexcept { return (word & dropped_mask) == 0; }
  /// The raw record of a word: rest bits, with the sign below them unless the symbol has it.
  Word rest(Word word) const noexcept {
    const Word g = static_cast<Word>((word >> dropped) & rest_mask);
    return signed_symbols ? g : static_cast<Word>(static_cast<Word>(g << 1) | (word >> sign_shift));
  }
  /// x beyond its bits wraps, so that no residual can leave the field.
  Word word(unsigned sign, std::int32_t x_value, Word g) const noexcept {
    return static_cast<Word>(static_cast<Word>(static_cast<Word>(sign) << sign_shift) |
                             static_cast<Word>(static_cast<Word>(x_value & x_mask) << x_shift) |
                             static_cast<Word>(g << dropped));
  }

  unsigned sign_shift, x_bits, x_shift, dropped;
  bool signed_symbols;
  Word magnitude_mask, rest_mask, dropped_mask;
  std::int32_t x_mask;
};

/// The part of a run that lies in one row of the view.
struct RowRun {
  std::size_t begin;  ///< in the run
  std::size_t n;
  std::uint64_t row, column;
};

template <typename Function>
void for_each_row(const ScaledRun& run, const Function& function) {
  const std::uint64_t columns = run.parameters->columns;
  const std::uint64_t start = run.first + run.parameters->origin;
  RowRun row{0, 0, start / columns, start % columns};
  while (row.begin < run.n) {
    row.n =
        static_cast<std::size_t>(std::min<std::uint64_t>(run.n - row.begin, columns - row.column));
    function(row);
    row.begin += row.n;
    row.row += 1;
    row.column = 0;
  }
}

/// Columns that are worked on at a time: predictions and wide symbols of a block stay in L1.
inline constexpr std::size_t kRowBlock = 1024;

/// The part of a row that a block covers, with what is the same for all its elements taken out of
/// memory: loops over bytes could otherwise not be vectorised, for a byte may alias anything.
template <typename Word>
struct RowBlock {
  using Signed = std::make_signed_t<Word>;
  alignas(64) std::array<Word, kRowBlock> predictions;  ///< base included, modulo 2^bits
  alignas(64) std::array<Word, kRowBlock> guesses;      ///< of signs, 0 or 1
  alignas(64) std::array<Word, kRowBlock> symbols;

  void predict(const ScaledRun& run, std::uint64_t row, std::uint64_t column,
               std::size_t n) noexcept {
    const std::int32_t base = run.base;
    Word* const out = predictions.data();
    if (!run.parameters->has_scales) {
      std::fill_n(out, n, static_cast<Word>(base));
      return;
    }
    const std::int32_t halved = run.parameters->halved;
    const std::int32_t row_scale = run.grid->row_scales[row] + halved;
    const std::int16_t* const scales = run.grid->column_scales.data() + column;
    for (std::size_t j = 0; j < n; ++j)
      out[j] = static_cast<Word>(((row_scale + scales[j]) >> halved) + base);
  }

  void guess(const ScaledRun& run, std::uint64_t row, std::uint64_t column,
             std::size_t n) noexcept {
    Word* const out = guesses.data();
    if (run.parameters->sign_mode != SignMode::rank_one) {
      std::fill_n(out, n, Word{0});
      return;
    }
    const auto row_sign = static_cast<Word>(run.grid->row_signs[row]);
    const std::uint8_t* const signs = run.grid->column_signs.data() + column;
    for (std::size_t j = 0; j < n; ++j) out[j] = static_cast<Word>(row_sign ^ signs[j]);
  }
};

/// Calls function(block, begin, n) over the blocks of a row, predicted and guessed.
template <typename Word, typename Function>
void for_each_block(const ScaledRun& run, const RowRun& row, RowBlock<Word>& block,
                    const Function& function) {
  for (std::size_t at = 0; at < row.n; at += kRowBlock) {
    const std::size_t n = std::min(row.n - at, kRowBlock);
    block.predict(run, row.row, row.column + at, n);
    block.guess(run, row.row, row.column + at, n);
    function(at, n);
  }
}

template <typename Word>
void apply_row(const ScaledRun& run, const RowRun& row, const Word* words, bool mapped,
               std::uint8_t* symbols, Word* records, RowBlock<Word>& block) {
  const ScaledParameters& p = *run.parameters;
  const Fields<Word> fields(run);
  const auto window = static_cast<Word>(p.window);
  const auto escape = static_cast<Word>(p.escape_symbol());
  const auto zero = static_cast<Word>(p.has_zero || mapped ? p.zero_symbol() : p.escape_symbol());
  const auto flip_mask = static_cast<Word>(p.sign_factor() - 1);
  for_each_block(run, row, block, [&](std::size_t at, std::size_t n) {
    const Word* const in = words + at;
    Word* const out = block.symbols.data();
    for (std::size_t j = 0; j < n; ++j) {
      const Word word = in[j];
      const auto t = static_cast<Word>(((word & fields.magnitude_mask) >> fields.x_shift) -
                                       block.predictions[j]);
      const auto flip =
          static_cast<Word>(((word >> fields.sign_shift) ^ block.guesses[j]) & flip_mask);
      const auto coded = static_cast<Word>((t << flip_mask) + flip);
      const bool fits = (t < window) & ((word & fields.dropped_mask) == 0);
      const Word symbol = fits ? coded : escape;
      out[j] = word == 0 ? zero : symbol;
    }
    for (std::size_t j = 0; j < n; ++j) symbols[at + j] = static_cast<std::uint8_t>(out[j]);
    Word* const rest = records + at;
    if (fields.signed_symbols) {
      for (std::size_t j = 0; j < n; ++j)
        rest[j] = static_cast<Word>((in[j] >> fields.dropped) & fields.rest_mask);
    } else {
      for (std::size_t j = 0; j < n; ++j) {
        const auto g = static_cast<Word>((in[j] >> fields.dropped) & fields.rest_mask);
        rest[j] = static_cast<Word>((g << 1) | (in[j] >> fields.sign_shift));
      }
    }
  });
}

template <typename Word>
void restore_row(const ScaledRun& run, const RowRun& row, const std::uint8_t* symbols,
                 const Word* records, Word* words, RowBlock<Word>& block) {
  const ScaledParameters& p = *run.parameters;
  const Fields<Word> fields(run);
  const auto flip_mask = static_cast<Word>(p.sign_factor() - 1);
  const auto zero = static_cast<Word>(p.zero_symbol());
  const auto x_mask = static_cast<Word>(fields.x_mask);
  const auto raw_sign =
      static_cast<Word>(p.sign_mode == SignMode::raw ? 1 : 0);  // also how far records are shifted
  for_each_block(run, row, block, [&](std::size_t at, std::size_t n) {
    Word* const wide = block.symbols.data();
    for (std::size_t j = 0; j < n; ++j) wide[j] = symbols[at + j];
    const Word* const rest = records + at;
    Word* const out = words + at;
    for (std::size_t j = 0; j < n; ++j) {
      const auto x = static_cast<Word>(((wide[j] >> flip_mask) + block.predictions[j]) & x_mask);
      const auto sign =
          static_cast<Word>((rest[j] & raw_sign) | ((wide[j] & flip_mask) ^ block.guesses[j]));
      const auto word = static_cast<Word>((sign << fields.sign_shift) | (x << fields.x_shift) |
                                          ((rest[j] >> raw_sign) << fields.dropped));
      out[j] = wide[j] == zero ? Word{0} : word;
    }
  });
}

/// For kernels whose taps lie apart: walks along a run and knows, for its next element, what the
/// previous tap left behind.
class TapWalk {
 public:
  explicit TapWalk(const ScaledRun& run)
      : inner_(static_cast<std::size_t>(run.parameters->inner)),
        taps_(run.parameters->taps),
        columns_(static_cast<std::size_t>(run.parameters->columns)),
        halved_(run.parameters->halved) {
    const std::uint64_t start = run.first + run.parameters->origin;
    if (run.parameters->has_scales) {
      row_scale_ = run.grid->row_scales.data() + start / columns_;
      column_scales_ = run.grid->column_scales.data();
    }
    column_ = static_cast<std::size_t>(start % columns_);
    tap_ = run.first / inner_ % taps_;
    offset_ = static_cast<std::size_t>(run.first % inner_);
    if (inner_ > 1) left_.resize(run.n);
    enter();
  }
  std::int32_t prediction() const noexcept {
    if (row_scale_ == nullptr) return 0;
    return (*row_scale_ + column_scales_[column_] + halved_) >> halved_;
  }
  /// Half of the previous tap's residual, and its sign.
  std::int32_t carried() const noexcept { return (previous_.q + 1) >> 1; }
  unsigned guess() const noexcept { return previous_.sign; }
  /// What the element leaves behind; then moves on to the next.
  void push(std::int32_t q, unsigned sign) noexcept {
    previous_ = {q, sign};
    if (inner_ > 1) left_[at_] = previous_;
    ++at_;
    if (++column_ == columns_) {
      column_ = 0;
      if (row_scale_ != nullptr) ++row_scale_;
    }
    if (++offset_ == inner_) {
      offset_ = 0;
      if (++tap_ == taps_) tap_ = 0;
    }
    enter();
  }

 private:
  struct Left {
    std::int32_t q;
    unsigned sign;
  };
  /// Looks up the previous tap of the element that comes next; with inner 1 it is the last one
  /// pushed.
  void enter() noexcept {
    if (tap_ == 0 || at_ < inner_) {
      previous_ = {0, 0};
    } else if (inner_ > 1 && at_ < left_.size()) {
      previous_ = left_[at_ - inner_];
    }
  }

  std::size_t inner_;
  std::uint64_t taps_;
  std::size_t columns_;
  std::int32_t halved_;
  const std::int16_t* row_scale_ = nullptr;
  const std::int16_t* column_scales_ = nullptr;
  std::size_t column_ = 0, offset_ = 0, at_ = 0;
  std::uint64_t tap_ = 0;
  Left previous_{0, 0};
  std::vector<Left> left_;  ///< of all elements, where inner is above 1
};

}  // namespace gradwire::predict
