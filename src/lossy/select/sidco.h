// SIDCo's threshold: fits of a distribution's tail, stage after stage.
// In: magnitudes, a wanted number of them, a model, a number of stages.
// Out: the lowest magnitude that is selected.
// Assumes: nothing of the data; a fit that fails says so.
// Source: Abdelmoniem et al. 2021, An efficient statistical-based gradient compression technique
// for distributed training systems, and the authors' code. We differ: the fit is of a sample
// (gather.h); zeros and what is not finite have no part in it, the share that is asked of the
// others grows by as much; an excess is over the last threshold, not over the least survivor; and
// each stage aims at what its survivors, which are counted, leave to do, where the authors fix the
// shares of all stages beforehand, so that only the last stage's error remains. Fewer than 4,096
// values, and those that no model fits, are selected exactly.
#pragma once

#include <optional>
#include <span>

#include "lossy/select/select.h"

namespace gradwire::lossy {

/// What a stage knows of the finite magnitudes from `low` (above 0) on, which lie above its
/// location: their number, and the mean and the variance of the excess. Sums have 8 partial sums,
/// of every 8th magnitude each, which are then added in halves (0 + 4, 1 + 5, ...; 0 + 2, ...):
/// vectors of any width give the same bits.
struct Moments {
  std::size_t count = 0;
  double mean = 0;
  double variance = 0;
};
Moments excess_moments(std::span<const std::uint32_t> magnitudes, std::uint32_t low,
                       double location) noexcept;

/// Sum of ln |x| of the magnitudes that are finite and not zero, to which the same holds.
double sum_log(std::span<const std::uint32_t> magnitudes) noexcept;

/// The excess that a share p of the distribution exceeds, by each model. Not finite, or not
/// positive, where the moments allow no fit.
double exponential_threshold(const Moments& moments, double p) noexcept;
double pareto_threshold(const Moments& moments, double p) noexcept;
double gamma_threshold(const Moments& moments, double log_mean, double p) noexcept;

/// The lowest magnitude that is selected, so that about `wanted` of `magnitudes` are; none where a
/// fit failed; 1 where no more than `wanted` are finite and not zero. wanted > 0.
std::optional<std::uint32_t> sidco_threshold(std::span<const std::uint32_t> magnitudes,
                                             double wanted, SidcoModel model, unsigned stages);

/// Takes note of one selection. Every five, the mean of found / asked decides: over 1.2 there is
/// one stage fewer, under 0.8 one more, within 1 and ceil(log2(n / asked)): the published rule.
/// With `bounded` the asked number is also corrected after each selection, by the square root of
/// what it was missed by: the other half is left to the next, as one step's miss is partly chance.
void adapt(SidcoState& state, std::size_t found, std::size_t asked, std::size_t n, bool bounded);

}  // namespace gradwire::lossy
