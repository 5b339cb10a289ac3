// Fitting the kernel predictor: coefficients of earlier taps, scales of taps and kernels.
// In: words of whole kernels.
// Out: Taps, or C of every kernel of a chunk.
// Assumes: as kernels.h. Floating point is used for least squares, in operations that IEEE 754
// rounds the same way everywhere (the build forbids contraction), so the bytes do not depend on
// the CPU.
#pragma once

#include <span>
#include <vector>

#include "gradwire/dtype.h"
#include "stages/predict/kernels.h"

namespace gradwire::predict {

/// Fits Taps for effort 1 (a = 0) from sampled kernels; with_effort gives the others.
template <typename Word>
Taps fit_taps(DType dtype, const KernelParameters& parameters, const Word* words, std::size_t n);

/// The same taps with lattice steps 2^(effort - 1) times smaller than for effort 1.
Taps with_effort(const Taps& taps, unsigned effort);

/// C of each kernel: log2 of its guess errors in whole octaves.
template <typename Word>
void fit_kernel_scales(DType dtype, const KernelParameters& parameters, const Taps& taps,
                       const Word* words, std::size_t n, std::span<std::int32_t> scales);

}  // namespace gradwire::predict
