// A first look at a float tensor: zeros, dead lines, bits in use, and a sample to try plans on.
// In: a tensor and a view.
// Out: counts and grids.
// Assumes: n > 0.
#pragma once

#include <array>
#include <vector>

#include "lossless/plan.h"

namespace gradwire::lossless {

struct Survey {
  std::uint64_t zeros = 0;
  unsigned fraction_bits = 0;  ///< that any element uses
};

template <typename Word>
Survey survey_tensor(const TensorView& tensor);

/// Runs of elements that stand for the tensor; all of it when it is small.
template <typename Word>
struct Sample {
  /// Some 2 to 8 Ki elements that are not zero (an eighth of the tensor), in up to 8 runs cut at
  /// multiples of `group`.
  Sample(const TensorView& tensor, std::uint64_t zeros, std::uint64_t group);

  struct Run {
    std::uint64_t first;  ///< in the tensor
    std::size_t n;
  };
  std::vector<Run> runs;
  std::vector<Word> words;  ///< of all runs, one after the other
};

/// Non-zero elements by number of fraction bits used.
template <typename Word>
std::array<std::uint64_t, 65> count_significant(const Sample<Word>& sample, DType dtype);

/// Flags rows and columns without a non-zero element, where that pays.
template <typename Word>
void find_dead_lines(const TensorView& tensor, std::uint64_t columns, predict::Grid& grid);

/// Means of log2 |x| a row and a column, in sixteenths of an octave.
struct ScaleMeans {
  std::vector<std::int32_t> rows, columns;
};
template <typename Word>
ScaleMeans fit_scales(const TensorView& tensor, std::uint64_t columns, std::uint64_t zeros);
/// The means in steps of 2^units_log2 sixteenths.
void quantise_scales(const ScaleMeans& means, unsigned units_log2, predict::Grid& grid);

/// Fits a sign a row and a sign a column whose product is most often the element's sign; false
/// where they cannot pay.
template <typename Word>
bool fit_signs(const TensorView& tensor, std::uint64_t columns, std::uint64_t zeros,
               predict::Grid& grid);

}  // namespace gradwire::lossless
