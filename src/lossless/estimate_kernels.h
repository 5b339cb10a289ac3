// What coding by kernels would cost, from a sample.
// In: a tensor and a plan of pipeline kernels.
// Out: fitted taps; estimated bits of the whole tensor.
// Assumes: sample runs hold whole kernels.
#pragma once

#include "lossless/survey.h"

namespace gradwire::lossless {

/// Fits taps on kernels spread over the tensor.
template <typename Word>
predict::Taps fit_kernels(const TensorView& tensor, const KernelParameters& parameters);

/// Sampled kernels with their scales, which do not depend on the effort.
template <typename Word>
struct KernelSample {
  KernelSample(DType dtype, const Sample<Word>& sample, const KernelParameters& parameters,
               const predict::Taps& taps);

  struct Piece {
    std::vector<Word> words;
    std::vector<std::uint8_t> mask;
    std::vector<std::int32_t> scales;
    bool zeros = false;
  };
  std::vector<Piece> pieces;
  std::uint64_t side_bits = 0;
  std::uint64_t elements = 0;
};

template <typename Word>
std::uint64_t estimate_kernels(const KernelSample<Word>& sample, const Plan& plan);

}  // namespace gradwire::lossless
