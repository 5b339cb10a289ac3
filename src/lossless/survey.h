// A first look at a float tensor: zeros, dead lines, bits in use, and a sample to try plans on.
// In: a tensor and a view.
// Out: counts and grids.
// Assumes: n > 0.
#pragma once

#include <array>
#include <vector>

#include "lossless/plan.h"

namespace gradwire::lossless {

/// Runs of elements that stand for the tensor; all of it when it is small.
struct Sample {
  struct Run {
    std::uint64_t first;
    std::size_t n;
  };
  std::vector<Run> runs;
  std::uint64_t elements = 0;
};

/// At most about 8 Ki elements in 8 runs, each cut at multiples of `group`.
Sample take_sample(std::uint64_t elements, std::uint64_t group);

struct Survey {
  std::uint64_t zeros = 0;
  unsigned fraction_bits = 0;  ///< that any element uses
  std::array<std::uint64_t, 65>
      significant{};  ///< sampled non-zero elements by number of fraction bits used
};

template <typename Word>
Survey survey_tensor(const TensorView& tensor, const Sample& sample);

/// Flags rows and columns without a non-zero element, where that pays.
template <typename Word>
void find_dead_lines(const TensorView& tensor, std::uint64_t columns, predict::Grid& grid);

/// Means of log2 |x| a row and a column, in sixteenths of an octave.
struct ScaleMeans {
  std::vector<std::int32_t> rows, columns;
};
template <typename Word>
ScaleMeans fit_scales(const TensorView& tensor, std::uint64_t columns, bool has_zeros);
/// The means in steps of 2^units_log2 sixteenths.
void quantise_scales(const ScaleMeans& means, unsigned units_log2, predict::Grid& grid);

/// Fits a sign a row and a sign a column whose product is most often the element's sign.
template <typename Word>
void fit_signs(const TensorView& tensor, std::uint64_t columns, predict::Grid& grid);

}  // namespace gradwire::lossless
