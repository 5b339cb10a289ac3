// Residuals of the scaled predictor without a window: what plans are compared by.
// In: words of a run.
// Out: the place of every element in a histogram of residuals.
// Assumes: as scaled.h; inner is 1.
#pragma once

#include "stages/predict/scaled.h"

namespace gradwire::predict {

/// Half the number of residuals that a histogram has places for: residuals d in [-half, half) stand
/// at 2 (d + half) + flip, those beyond at its ends; zeros at 4 half, the last place.
constexpr std::int32_t residual_half(FloatFormat format, const ScaledParameters& p) noexcept {
  return 1 << (format.exponent_bits + p.step_log2);
}

/// places[i] of every element; flip is 0 for raw signs.
template <typename Word>
void collect_residuals(const ScaledRun& run, const Word* words, Word* places);

}  // namespace gradwire::predict
