// The normal distribution of mean 0 and variance 1.
// In: points and probabilities.
// Out: densities, probabilities and points, to some 1e-14, with the same bits on every CPU and C
// library: additions, multiplications, divisions and square roots only.
// Assumes: -ffp-contract=off; points from -6 to 6.
#pragma once

namespace gradwire::lossy {

double normal_density(double z) noexcept;

/// The probability from 0 to z; negative for z < 0.
double normal_probability(double z) noexcept;

/// The z > 0 outside of which, on both sides together, lies `probability`: 1e-8 to less than 1.
double normal_limit(double probability) noexcept;

}  // namespace gradwire::lossy
