// The choice of a plan: which pipeline, prediction, zero mode and fraction mode a tensor gets.
// In: a tensor and options.
// Out: plans without tables.
// Assumes: data and shape agree, n > 0.
#pragma once

#include <optional>

#include "lossless/plan.h"

namespace gradwire::lossless {

/// The header that all plans of a tensor share: dtype, dims, chunk size, streams.
frame::TensorHeader plain_header(const TensorView& tensor);

/// The plan that seems best, and a second one where only encoding both tells.
struct Plans {
  Plan best;
  std::optional<Plan> rival;
};

Plans make_plans(const TensorView& tensor, const CompressOptions& options);

/// Everything stored: the plan of last resort.
Plan stored_plan(const TensorView& tensor);

}  // namespace gradwire::lossless
