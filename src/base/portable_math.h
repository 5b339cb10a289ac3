// Logarithm, exponential and log-gamma of additions, multiplications, divisions and shifts only.
// In: finite doubles, positive where a logarithm is taken.
// Out: doubles, within some 1e-14 relative, and the same bits on every CPU and C library, which
// std::log and std::exp do not promise.
// Assumes: -ffp-contract=off.
#pragma once

namespace gradwire {

/// ln x for x > 0, normal.
double natural_log(double x) noexcept;

/// e^x; 0 below x = -700, e^700 above 700.
double exponential(double x) noexcept;

/// ln Gamma(x) for x > 0.
double log_gamma(double x) noexcept;

}  // namespace gradwire
