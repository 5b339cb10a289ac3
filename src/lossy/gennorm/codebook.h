// Levels that values are quantised to, for a generalised normal distribution.
// In: a row of beta, the number of levels, the weight of large values.
// Out: levels, and the error that they make.
// Assumes: options within their ranges (gennorm.h checks them).
// Levels are symmetric and ascending, in units of the root mean square, not of alpha: where beta is
// small alpha lies far below all values that matter.
// Source: Lloyd 1982 and Max 1960; the weighted error: Chen, Gradients sparsification and
// quantization by M-magnitude weighted L2 distortion, 2022.
#pragma once

#include <memory>
#include <span>
#include <vector>

namespace gradwire::lossy {

inline constexpr unsigned kMostLevels = 255;
inline constexpr unsigned kMostWeightPower = 8;

using Levels = std::vector<float>;

/// Levels that are a (local) minimum of the mean of |x|^weight_power (x - level)^2 under the
/// row's distribution: each is the weighted centroid of the values that are nearest to it, to a
/// relative 1e-9. Kept: the second call of the same arguments is a look-up. Thread-safe.
std::shared_ptr<const Levels> lloyd_levels(unsigned row, unsigned levels, unsigned weight_power);

/// `levels` of distance `step`.
Levels uniform_levels(unsigned levels, double step);

/// The numbers of a float type with this many exponent and fraction bits, subnormals included, no
/// infinities, in units of its least: 2^(exponent_bits + fraction_bits + 1) - 1 levels.
Levels float_levels(unsigned exponent_bits, unsigned fraction_bits);

/// The mean square error of values of beta and mean square 1 that go to the nearest level.
double expected_error(std::span<const float> levels, double beta);

}  // namespace gradwire::lossy
