// What a plan would cost, from a sample.
// In: a tensor, a plan without base and tables, a sample.
// Out: estimated bits; the plan's base and window.
// Assumes: the plan's grid covers the view.
#pragma once

#include "lossless/survey.h"

namespace gradwire::lossless {

/// Estimated bits of the whole tensor under the plan, its side information (`side_bytes`) included.
/// Sets plan.base and, where the alphabet may grow, plan.header.scaled.window.
template <typename Word>
std::uint64_t estimate_scaled(const TensorView& tensor, const Sample& sample,
                              std::size_t side_bytes, const CompressOptions& options, Plan& plan);

}  // namespace gradwire::lossless
