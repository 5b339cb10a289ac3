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

unsigned most_stages(std::size_t n, std::size_t asked) {
  return std::max(1U,
                  static_cast<unsigned>(std::bit_width((n - 1) / std::max(asked, std::size_t{1}))));
}

/// The lowest magnitude that is selected; none where a fit failed.
std::optional<std::uint32_t> threshold(std::span<const float> values, const SelectOptions& options,
                                       const SidcoState& state, Words& sample) {
  sample_magnitudes(values, options.count, options.seed, sample);
  const double share = static_cast<double>(options.count) / static_cast<double>(values.size());
  const double asked = share * static_cast<double>(sample.size());
  const double wanted = options.bounded ? asked * state.correction : asked;
  return sidco_threshold(sample, wanted, options.model, state.stages);
}

}  // namespace

void adapt(SidcoState& state, std::size_t found, std::size_t asked, std::size_t n, bool bounded) {
  const double miss = static_cast<double>(found) / static_cast<double>(asked);
  if (bounded) {
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
  const auto low = threshold(values, options, state, scratch.magnitudes);
  if (!low) return select_top_k(values, options, scratch, indices);
  gather(values, *low, indices);
  adapt(state, indices.size(), options.count, values.size(), options.bounded);
  if (!options.bounded) return;
  if (is_surplus(indices.size(), options.count)) {
    keep_largest(values, options.count, scratch, indices);
  } else if (is_scarce(indices.size(), options.count) && *low > 1) {
    select_top_k(values, options, scratch, indices);
  }
}

}  // namespace gradwire::lossy
