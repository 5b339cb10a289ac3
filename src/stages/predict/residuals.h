// Residuals of the scaled predictor without a window: what plans are compared by.
// In: words of a run.
// Out: d x 2 + flip for every element.
// Assumes: as scaled.h.
#pragma once

#include "stages/predict/scaled.h"

namespace gradwire::predict {

inline constexpr std::int32_t kNoResidual = INT32_MIN;  ///< in place of a zero

/// out[i] = d * 2 + flip (flip = 0 for raw signs), kNoResidual for a zero.
template <typename Word>
void collect_residuals(const ScaledRun& run, const Word* words, std::int32_t* out);

}  // namespace gradwire::predict
