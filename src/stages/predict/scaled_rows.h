// Runs of the scaled predictor cut into rows, and rows into blocks that are predicted at once.
// In: a run.
// Out: its parts that lie in one row; predictions and guessed signs of a block.
// Assumes: as scaled.h.
#pragma once

#include <algorithm>
#include <array>
#include <type_traits>

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
      : x_bits(run.format.exponent_bits + run.parameters->step_log2),
        x_shift(run.format.fraction_bits - run.parameters->step_log2),
        dropped(run.format.fraction_bits - run.parameters->kept),
        signed_symbols(run.parameters->sign_mode != SignMode::raw),

        rest_mask(mask_of<Word>(run.parameters->rest_bits())),
        dropped_mask(mask_of<Word>(dropped)),
        x_mask((1 << x_bits) - 1) {}

  std::int32_t x(Word word) const noexcept {
    return static_cast<std::int32_t>((word & magnitude_mask) >> x_shift);
  }
  bool exact(Word word) const noexcept { return (word & dropped_mask) == 0; }
  /// x beyond its bits wraps, so that no residual can leave the field.
  Word word(unsigned sign, std::int32_t x_value, Word g) const noexcept {
    return static_cast<Word>(static_cast<Word>(static_cast<Word>(sign) << sign_shift) |
                             static_cast<Word>(static_cast<Word>(x_value & x_mask) << x_shift) |
                             static_cast<Word>(g << dropped));
  }

  static constexpr unsigned sign_shift = sizeof(Word) * 8 - 1;
  static constexpr Word magnitude_mask = mask_of<Word>(sign_shift);
  unsigned x_bits, x_shift, dropped;
  bool signed_symbols;
  Word rest_mask, dropped_mask;
  std::int32_t x_mask;
};

/// The part of a run that lies in one row of the view.
struct RowRun {
  std::size_t begin;  ///< in the run
  std::size_t n;
  std::uint64_t row, column;
};

/// A run that has nothing of its rows is a single one.
template <typename Function>
void for_each_row(const ScaledRun& run, const Function& function) {
  const ScaledParameters& p = *run.parameters;
  if (!p.has_scales && p.sign_mode != SignMode::rank_one) return function({0, run.n, 0, 0});
  const std::uint64_t columns = p.columns;
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

  explicit RowBlock(std::int32_t base_of_run) : base(base_of_run) {
    predictions.fill(static_cast<Word>(base));
    guesses.fill(0);
  }

  void predict(const ScaledRun& run, std::uint64_t row, std::uint64_t column,
               std::size_t n) noexcept {
    if (!run.parameters->has_scales) return;
    Word* const out = predictions.data();
    const std::int16_t row_scale = run.grid->row_scales[row];
    const std::int16_t* const scales = run.grid->column_scales.data() + column;
    if (!run.parameters->halved) {
      const auto offset = static_cast<Word>(row_scale + base);
      for (std::size_t j = 0; j < n; ++j) out[j] = static_cast<Word>(offset + extended(scales[j]));
      return;
    }
    // The sum's half, rounded up, without the bit that the sum may have more than its terms.
    const auto offset = static_cast<Word>((row_scale >> 1) + base);
    for (std::size_t j = 0; j < n; ++j) {
      const auto half = extended(static_cast<std::int16_t>(scales[j] >> 1));
      const auto odd = static_cast<Word>((scales[j] | row_scale) & 1);
      out[j] = static_cast<Word>(static_cast<Word>(offset + half) + odd);
    }
  }

  void guess(const ScaledRun& run, std::uint64_t row, std::uint64_t column,
             std::size_t n) noexcept {
    if (run.parameters->sign_mode != SignMode::rank_one) return;
    Word* const out = guesses.data();
    const auto row_sign = static_cast<Word>(run.grid->row_signs[row]);
    const std::uint8_t* const signs = run.grid->column_signs.data() + column;
    for (std::size_t j = 0; j < n; ++j) out[j] = static_cast<Word>(row_sign ^ signs[j]);
  }

  const std::int32_t base;

 private:
  static Word extended(std::int16_t scale) noexcept { return static_cast<Word>(scale); }
};

/// Calls function(begin, n) over the blocks of a run, predicted and guessed.
template <typename Word, typename Function>
void for_each_block(const ScaledRun& run, RowBlock<Word>& block, const Function& function) {
  for_each_row(run, [&](const RowRun& row) {
    for (std::size_t at = 0; at < row.n; at += kRowBlock) {
      const std::size_t n = std::min(row.n - at, kRowBlock);
      block.predict(run, row.row, row.column + at, n);
      block.guess(run, row.row, row.column + at, n);
      function(row.begin + at, n);
    }
  });
}

}  // namespace gradwire::predict
