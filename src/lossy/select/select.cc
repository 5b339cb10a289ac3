#include "lossy/select/select.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/fail.h"
#include "lossy/select/gather.h"
#include "lossy/select/magnitude.h"
#include "lossy/select/parts.h"

namespace gradwire::lossy {
namespace {

constexpr unsigned kMostStages = 32;

/// A state that was read from somewhere is one that `adapt` could have left.
void check(const SidcoState& state) {
  const bool is_sound = state.stages <= kMostStages && state.steps < 5 && state.ratio_sum >= 0 &&
                        state.correction >= 0.125 && state.correction <= 8;
  if (is_sound) return;
  fail(ErrorKind::invalid_argument,
       "select, sidco's state: stages {}, steps {}, ratio_sum {}, correction {} given; at most {}, "
       "at most 4, 0 or more, 1/8 to 8 needed",
       state.stages, state.steps, state.ratio_sum, state.correction, kMostStages);
}

void check(std::size_t n, const SelectOptions& options) {
  if (n > std::numeric_limits<std::uint32_t>::max()) {
    fail(ErrorKind::limit, "select: {} values, at most 2^32 - 1 allowed", n);
  }
  if (options.selector == Selector::threshold && !(options.threshold >= 0)) {
    fail(ErrorKind::invalid_argument, "select, threshold: {} given, 0 or more needed",
         options.threshold);
  }
  if (options.selector == Selector::sampled_top_k &&
      !(options.sample_share > 0 && options.sample_share <= 1)) {
    fail(ErrorKind::invalid_argument, "select, sample_share: {} given, above 0 up to 1 needed",
         options.sample_share);
  }
  if (options.selector == Selector::sidco && (options.stages < 1 || options.stages > kMostStages)) {
    fail(ErrorKind::invalid_argument, "select, stages: {} given, 1 to {} needed", options.stages,
         kMostStages);
  }
}

void select_all(std::size_t n, Indices& indices) {
  indices.resize(n);
  std::iota(indices.begin(), indices.end(), 0U);
}

}  // namespace

std::size_t count_for_keep(double keep, std::size_t n) {
  if (!(keep > 0 && keep <= 1)) {
    fail(ErrorKind::invalid_argument, "select, keep: {} given, above 0 up to 1 needed", keep);
  }
  constexpr double kSlack = 1 - 0x1p-40;  // 0.07 * 100 is 7.000000000000001
  const double product = std::ceil(keep * static_cast<double>(n) * kSlack);
  return std::clamp<std::size_t>(static_cast<std::size_t>(product), n > 0, n);
}

void select(std::span<const float> values, const SelectOptions& options, SidcoState& state,
            SelectScratch& scratch, Indices& indices) {
  const std::size_t n = values.size();
  check(n, options);
  if (options.selector == Selector::threshold) {
    return gather(values, magnitude_from(options.threshold), indices);
  }
  if (options.selector == Selector::all || options.count >= n) return select_all(n, indices);
  if (options.count == 0) return indices.clear();
  switch (options.selector) {
    case Selector::sampled_top_k:
      return select_sampled_top_k(values, options, scratch, indices);
    case Selector::sidco:
      check(state);
      return select_sidco(values, options, state, scratch, indices);
    case Selector::random_k:
      return select_random_k(n, options, scratch, indices);
    default:
      return select_top_k(values, options, scratch, indices);
  }
}

}  // namespace gradwire::lossy
