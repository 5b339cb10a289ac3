#include "lossy/thc/normal.h"

namespace gradwire::lossy {
namespace {

constexpr double kRootOfTwoPi = 2.5066282746310005024;

/// e^x for x >= 0; all terms are positive.
double exponential(double x) noexcept {
  double sum = 1;
  double term = 1;
  for (int k = 1; term > sum * 0x1p-60; ++k) {
    term = term * x / k;
    sum += term;
  }
  return sum;
}

}  // namespace

double normal_density(double z) noexcept { return 1 / (exponential(z * z / 2) * kRootOfTwoPi); }

// Marsaglia 2004, Evaluating the normal distribution: z + z^3 / 3 + z^5 / (3 5) + ... times the
// density, all terms of one sign.
double normal_probability(double z) noexcept {
  double sum = z;
  double term = z;
  for (int k = 3; term * term > sum * sum * 0x1p-120; k += 2) {
    term = term * (z * z) / k;
    sum += term;
  }
  return sum * normal_density(z);
}

double normal_limit(double probability) noexcept {
  double low = 0;
  double high = 6;
  for (int halving = 0; halving < 60; ++halving) {
    const double middle = (low + high) / 2;
    (1 - 2 * normal_probability(middle) > probability ? low : high) = middle;
  }
  return high;
}

}  // namespace gradwire::lossy
