// The generalised normal distribution about zero: density beta / (2 alpha Gamma(1 / beta))
// exp(-(|x| / alpha)^beta). beta = 2 is normal, 1 is Laplace; gradients have less.
// In: moments of values; or arguments of the distribution.
// Out: beta and alpha; densities, probabilities and moments of parts, within some 1e-12.
// Assumes: beta from kLeastBeta to kMostBeta, finite arguments. All of it is arithmetic of
// base/portable_math.h: the same bits on every CPU.
// Source: Nadarajah 2005, A generalized normal distribution; the fit by moments: Mallat 1989.
#pragma once

namespace gradwire::lossy {

struct Gennorm {
  double beta = 2;
  double alpha = 1;

  double density(double x) const noexcept;
  /// The probability of a value below x.
  double below(double x) const noexcept;
};

inline constexpr double kLeastBeta = 0.125;
inline constexpr double kMostBeta = 8;

/// Rows of a table of betas: 2^(row / 16 - 3). Half, one and two are among them; to the nearest is
/// at most 2.2 % away, which costs a code about 1e-4 bits a value.
inline constexpr unsigned kBetaRows = 97;
double beta_of_row(unsigned row) noexcept;
unsigned nearest_row(double beta) noexcept;

/// (E|x|)^2 / E x^2: from 0.013 at kLeastBeta through 2 / pi at 2 to 0.74 at kMostBeta, growing.
double moment_ratio(double beta) noexcept;

/// The beta of this ratio; the nearest of the range where none of it has that.
double beta_of_ratio(double ratio) noexcept;

/// alpha of the distribution whose mean square is 1.
double unit_alpha(double beta) noexcept;

/// What the magnitudes between two bounds contribute to E|x|^power of alpha = 1; `to` may be
/// infinite. As exact for far and for narrow parts as 1e-12 of what lies on the side of `from`.
double part_of_moment(double beta, double power, double from, double to) noexcept;

/// x^y for x > 0; 0 for x = 0 and y > 0.
double power(double x, double y) noexcept;

}  // namespace gradwire::lossy
