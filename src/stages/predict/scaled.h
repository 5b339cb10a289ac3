// The scaled predictor (docs/format.md 3.3 to 3.5): exponents, and with step_log2 the first
// fraction bits, given a scale a row and a scale a column; signs given a bit a row and a bit a
// column, or the previous tap.
// In: words of a run of elements and where it stands in the view.
// Out: a symbol and a raw record for every position (zeros included, so that loops stay straight),
// escape records; and back.
// Assumes: the grid's arrays cover the view; a decoder's symbols are below the alphabet.
#pragma once

#include <vector>

#include "base/bytes.h"
#include "base/float_format.h"
#include "base/pipeline_parameters.h"

namespace gradwire::predict {

/// Side information of a tensor, one entry a row and a column; empty where not used.
struct Grid {
  std::vector<std::int16_t> row_scales, column_scales;
  std::vector<std::uint8_t> row_signs, column_signs;  ///< 0 or 1
  std::vector<std::uint8_t> row_dead, column_dead;    ///< 1: all zero
};

/// What one run of elements is coded with.
struct ScaledRun {
  FloatFormat format;
  const ScaledParameters* parameters;
  const Grid* grid;
  std::int32_t base;
  std::uint64_t first;  ///< index of the run's first element in the tensor
  std::size_t n;
};

/// Bytes of an escape record.
unsigned escape_bytes(FloatFormat format, const ScaledParameters& parameters) noexcept;

/// symbols[i], records[i] for every element; escape records of those elements that are escapes are
/// appended. Returns the number of escapes. Zeros get the zero symbol, or are escapes without
/// has_zero unless `mapped` (their positions are then noted elsewhere and the symbol means "not
/// coded").
template <typename Word>
std::size_t apply_scaled(const ScaledRun& run, const Word* words, bool mapped,
                         std::uint8_t* symbols, Word* records, Bytes& escapes);

/// The inverse: zero symbols give zero words. `escapes` holds one record an escape, in order. False
/// if an escape record has bits beyond its fields.
template <typename Word>
bool restore_scaled(const ScaledRun& run, const std::uint8_t* symbols, const Word* records,
                    const std::uint8_t* escapes, Word* words);

}  // namespace gradwire::predict
