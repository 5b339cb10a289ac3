// What coding by kernels would cost, from a sample.
// In: a tensor and a plan of pipeline kernels. Out: fitted taps; estimated bits of the whole tensor.
// Assumes: sample runs hold whole kernels.
#pragma once

#include "lossless/survey.h"

namespace gradwire::lossless {

/// Fits taps on kernels spread over the tensor.
template <typename Word>
predict::Taps fit_kernels(const TensorView& tensor, const KernelParameters& parameters);

template <typename Word>
std::uint64_t estimate_kernels(const TensorView& tensor, const Sample& sample, const Plan& plan);

}  // namespace gradwire::lossless
