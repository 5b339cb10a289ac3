// Inner loops of the scaled predictor: one row at a time, and element by element along taps.
// In: a run and a part of it that lies in one row. Out: symbols and records, or words.
// Assumes: as scaled.h. Straight loops without branches, left to the compiler's vectoriser.
#pragma once

#include <algorithm>
#include <vector>

#include "stages/predict/scaled.h"

namespace gradwire::predict {

template <typename Word>
constexpr Word mask_of(unsigned bits) noexcept {
  return bits >= sizeof(Word) * 8 ? static_cast<Word>(~Word{0}) : static_cast<Word>((Word{1} << bits) - 1);
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

  std::int32_t x(Word word) const noexcept { return static_cast<std::int32_t>((word & magnitude_mask) >> x_shift); }
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
    row.n = static_cast<std::size_t>(std::min<std::uint64_t>(run.n - row.begin, columns - row.column));
    function(row);
    row.begin += row.n;
    row.row += 1;
    row.column = 0;
  }
}

/// Prediction of one row: prediction(j) for the j-th element of a RowRun.
template <bool kScales>
struct RowPrediction {
  RowPrediction(const ScaledRun& run, const RowRun& row) noexcept {
    if constexpr (kScales) {
      row_scale = run.grid->row_scales[row.row] + run.parameters->halved;
      columns = run.grid->column_scales.data() + row.column;
      shift = run.parameters->halved;
    }
  }
  std::int32_t operator()(std::size_t j) const noexcept {
    if constexpr (kScales) return (row_scale + columns[j]) >> shift;
    return 0;
  }
  std::int32_t row_scale = 0;
  const std::int16_t* columns = nullptr;
  int shift = 0;
};

template <bool kSigns>
struct RowSigns {
  RowSigns(const ScaledRun& run, const RowRun& row) noexcept {
    if constexpr (kSigns) {
      row_sign = run.grid->row_signs[row.row];
      columns = run.grid->column_signs.data() + row.column;
    }
  }
  unsigned operator()(std::size_t j) const noexcept {
    if constexpr (kSigns) return row_sign ^ columns[j];
    return 0;
  }
  unsigned row_sign = 0;
  const std::uint8_t* columns = nullptr;
};

/// Calls function with the row's prediction and signs as types, so that the loops need not test for them.
template <typename Function>
void with_row_models(const ScaledRun& run, const RowRun& row, const Function& function) {
  const bool signs = run.parameters->sign_mode == SignMode::rank_one;
  if (run.parameters->has_scales) {
    if (signs) return function(RowPrediction<true>(run, row), RowSigns<true>(run, row));
    return function(RowPrediction<true>(run, row), RowSigns<false>(run, row));
  }
  if (signs) return function(RowPrediction<false>(run, row), RowSigns<true>(run, row));
  function(RowPrediction<false>(run, row), RowSigns<false>(run, row));
}

template <typename Word>
void apply_row(const ScaledRun& run, const RowRun& row, const Word* words, bool mapped, std::uint8_t* symbols,
               Word* records) {
  const ScaledParameters& p = *run.parameters;
  const Fields<Word> fields(run);
  const auto window = static_cast<std::uint32_t>(p.window);
  const auto escape = static_cast<std::uint8_t>(p.escape_symbol());
  const auto zero = static_cast<std::uint8_t>(p.has_zero || mapped ? p.zero_symbol() : p.escape_symbol());
  const unsigned flip_mask = p.sign_factor() - 1;
  const unsigned factor_log2 = flip_mask;
  with_row_models(run, row, [&](const auto prediction, const auto signs) {
    for (std::size_t j = 0; j < row.n; ++j) {
      const Word word = words[j];
      records[j] = fields.rest(word);
      const auto t = static_cast<std::uint32_t>(fields.x(word) - prediction(j) - run.base);
      const unsigned flip = (static_cast<unsigned>(word >> fields.sign_shift) ^ signs(j)) & flip_mask;
      const auto coded = static_cast<std::uint8_t>((t << factor_log2) + flip);
      const bool fits = (t < window) & fields.exact(word);
      symbols[j] = word == 0 ? zero : fits ? coded : escape;
    }
  });
}

template <typename Word>
void restore_row(const ScaledRun& run, const RowRun& row, const std::uint8_t* symbols, const Word* records, Word* words) {
  const ScaledParameters& p = *run.parameters;
  const Fields<Word> fields(run);
  const unsigned flip_mask = p.sign_factor() - 1;
  const unsigned zero = p.zero_symbol();
  const bool raw_signs = p.sign_mode == SignMode::raw;
  with_row_models(run, row, [&](const auto prediction, const auto signs) {
    for (std::size_t j = 0; j < row.n; ++j) {
      const unsigned symbol = symbols[j];
      const auto x = static_cast<std::int32_t>(symbol >> flip_mask) + run.base + prediction(j);
      const unsigned sign = raw_signs ? static_cast<unsigned>(records[j] & 1) : (symbol & flip_mask) ^ signs(j);
      const Word g = raw_signs ? static_cast<Word>(records[j] >> 1) : records[j];
      const Word word = fields.word(sign, x, g);
      words[j] = symbol == zero ? Word{0} : word;
    }
  });
}

/// Walks along a run and knows, for element i, what its previous tap left behind.
template <typename Word>
class TapWalk {
 public:
  explicit TapWalk(const ScaledRun& run)
      : run_(run), inner_(run.parameters->inner), taps_(run.parameters->taps), columns_(run.parameters->columns) {
    const std::uint64_t start = run.first + run.parameters->origin;
    row_ = start / columns_;
    column_ = start % columns_;
    tap_ = run.first / inner_ % taps_;
    offset_ = run.first % inner_;
    carried_.reserve(run.n);
    signs_.reserve(run.n);
  }
  std::int32_t prediction(std::size_t) const noexcept {
    if (!run_.parameters->has_scales) return 0;
    const std::int32_t sum = run_.grid->row_scales[row_] + run_.grid->column_scales[column_];
    return (sum + run_.parameters->halved) >> static_cast<int>(run_.parameters->halved);
  }
  std::int32_t carried(std::size_t i) const noexcept { return has_previous(i) ? (carried_[i - inner_] + 1) >> 1 : 0; }
  unsigned guess(std::size_t i) const noexcept { return has_previous(i) ? signs_[i - inner_] : 0; }
  /// What element i (the next one) leaves behind; then moves on.
  void push(std::int32_t q, unsigned sign) {
    carried_.push_back(q);
    signs_.push_back(static_cast<std::uint8_t>(sign));
    if (++column_ == columns_) {
      column_ = 0;
      ++row_;
    }
    if (++offset_ == inner_) {
      offset_ = 0;
      if (++tap_ == taps_) tap_ = 0;
    }
  }

 private:
  bool has_previous(std::size_t i) const noexcept { return tap_ != 0 && i >= inner_; }
  const ScaledRun& run_;
  std::uint64_t inner_, taps_, columns_;
  std::uint64_t row_, column_, tap_, offset_;
  std::vector<std::int32_t> carried_;
  std::vector<std::uint8_t> signs_;
};

}  // namespace gradwire::predict
