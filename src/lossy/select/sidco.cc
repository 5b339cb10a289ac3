#include "lossy/select/sidco.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "lossy/select/gather.h"
#include "lossy/select/magnitude.h"
#include "lossy/select/parts.h"

namespace gradwire::lossy {
namespace {

constexpr unsigned kWindow = 5;
constexpr double kLargestMiss = 4;  // that one step is believed
constexpr double kMostCorrection = 8;
constexpr std::size_t kFewestValues = 4096;  // a fit of fewer is noise, and exact selection cheap

/// Moves those that are finite and not zero to the front; returns their number.
std::size_t keep_fit_for_models(Words& magnitudes) {
  std::size_t kept = 0;
  for (const std::uint32_t word : magnitudes) {
    magnitudes[kept] = word;
    kept += word - 1 < kInfinity - 1;
  }
  return kept;
}

unsigned most_stages(std::size_t n, std::size_t asked) {
  return std::max(1U,
                  static_cast<unsigned>(std::bit_width((n - 1) / std::max(asked, std::size_t{1}))));
}

}  // namespace

void adapt(SidcoState& state, std::size_t found, std::size_t asked, std::size_t n, bool correct) {
  const double miss = static_cast<double>(found) / static_cast<double>(asked);
  if (correct) {
    const double factor = std::sqrt(std::clamp(miss, 1 / kLargestMiss, kLargestMiss));
    state.correction = std::clamp(state.correction / factor, 1 / kMostCorrection, kMostCorrection);
  }
  state.ratio_sum += miss;
  if (++state.steps < kWindow) return;
  const double ratio = state.ratio_sum / kWindow;
  if (ratio > 1.2) --state.stages;
  if (ratio < 0.8) ++state.stages;
  state.stages = std::clamp(state.stages, 1U, most_stages(n, asked));
  state.steps = 0;
  state.ratio_sum = 0;
}

void select_sidco(std::span<const float> values, const SelectOptions& options, SidcoState& state,
                  SelectScratch& scratch, Indices& indices) {
  if (values.size() < kFewestValues) return select_top_k(values, options, scratch, indices);
  if (state.stages == 0) state.stages = options.stages;
  sample_magnitudes(values, options.seed, scratch.magnitudes);
  const double share = static_cast<double>(options.count) / static_cast<double>(values.size());
  const double sampled = share * static_cast<double>(scratch.magnitudes.size());
  const double wanted = options.correct ? sampled * state.correction : sampled;
  scratch.magnitudes.resize(keep_fit_for_models(scratch.magnitudes));
  std::uint32_t low = 1;  // fewer than wanted are not zero: all of those
  if (wanted < static_cast<double>(scratch.magnitudes.size())) {
    const auto found = sidco_threshold(scratch.magnitudes, wanted, options.model, state.stages);
    if (!found) return select_top_k(values, options, scratch, indices);
    low = *found;
  }
  gather(values, low, indices);
  adapt(state, indices.size(), options.count, values.size(), options.correct);
  cut_surplus(values, options.count, scratch, indices);
}

}  // namespace gradwire::lossy
