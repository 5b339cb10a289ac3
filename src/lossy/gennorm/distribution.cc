#include "lossy/gennorm/distribution.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/portable_math.h"

namespace gradwire::lossy {
namespace {

constexpr double kEpsilon = 1e-16;
constexpr int kMostTerms = 2000;

/// The regularised incomplete gamma functions of a at x: P is the lower, Q = 1 - P the upper. The
/// smaller of both has full relative accuracy.
struct GammaParts {
  double lower;
  double upper;
};

/// P x^-a e^x Gamma(a + 1) = 1 + x / (a + 1) + x^2 / ((a + 1) (a + 2)) + ...
double lower_series(double a, double x) noexcept {
  double sum = 1;
  double term = 1;
  for (int n = 1; n < kMostTerms && term > sum * kEpsilon; ++n) {
    term *= x / (a + n);
    sum += term;
  }
  return sum;
}

/// Q x^-a e^x Gamma(a) as a continued fraction, by Lentz's method (Thompson, Barnett 1986).
double upper_fraction(double a, double x) noexcept {
  double b = x + 1 - a;
  double c = 1e300;
  double d = 1 / b;
  double result = d;
  for (int n = 1; n < kMostTerms; ++n) {
    const double numerator = -n * (n - a);
    b += 2;
    d = 1 / (numerator * d + b);
    c = b + numerator / c;
    result *= c * d;
    if (std::abs(c * d - 1) < 4 * kEpsilon) break;
  }
  return result;
}

GammaParts gamma_parts(double a, double x) noexcept {
  if (x < std::numeric_limits<double>::min()) return {0, 1};
  if (x > 700 + 8 * a) return {1, 0};
  const double front = a * natural_log(x) - x;
  if (x < a + 1) {
    const double lower = exponential(front - log_gamma(a + 1)) * lower_series(a, x);
    return {lower, 1 - lower};
  }
  const double upper = exponential(front - log_gamma(a)) * upper_fraction(a, x);
  return {1 - upper, upper};
}

}  // namespace

double power(double x, double y) noexcept {
  if (x < std::numeric_limits<double>::min()) return y == 0 ? 1 : 0;
  return exponential(y * natural_log(x));
}

double beta_of_row(unsigned row) noexcept {
  const auto octave = static_cast<int>(row / 16) - 3;
  const double fraction = exponential(std::numbers::ln2 * (row % 16) / 16);
  return fraction * (octave < 0 ? 1.0 / (1 << -octave) : 1 << octave);
}

unsigned nearest_row(double beta) noexcept {
  const double row = (natural_log(beta) / std::numbers::ln2 + 3) * 16;
  return static_cast<unsigned>(std::clamp(std::floor(row + 0.5), 0.0, kBetaRows - 1.0));
}

double moment_ratio(double beta) noexcept {
  return exponential(2 * log_gamma(2 / beta) - log_gamma(1 / beta) - log_gamma(3 / beta));
}

double beta_of_ratio(double ratio) noexcept {
  double low = kLeastBeta;
  double high = kMostBeta;
  if (!(ratio > moment_ratio(low))) return low;
  if (ratio >= moment_ratio(high)) return high;
  for (int step = 0; step < 50; ++step) {
    const double middle = 0.5 * (low + high);
    (moment_ratio(middle) < ratio ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

double unit_alpha(double beta) noexcept {
  return exponential(0.5 * (log_gamma(1 / beta) - log_gamma(3 / beta)));
}

double part_of_moment(double beta, double moment, double from, double to) noexcept {
  const double a = (moment + 1) / beta;
  const double all = exponential(log_gamma(a) - log_gamma(1 / beta));
  const GammaParts start = gamma_parts(a, power(from, beta));
  const GammaParts end = std::isinf(to) ? GammaParts{1, 0} : gamma_parts(a, power(to, beta));
  const bool near = start.lower < start.upper;
  return all * (near ? end.lower - start.lower : start.upper - end.upper);
}

double Gennorm::density(double x) const noexcept {
  const double size = power(std::abs(x) / alpha, beta);
  return 0.5 * beta / alpha * exponential(-size - log_gamma(1 / beta));
}

double Gennorm::below(double x) const noexcept {
  const GammaParts parts = gamma_parts(1 / beta, power(std::abs(x) / alpha, beta));
  return x < 0 ? 0.5 * parts.upper : 1 - 0.5 * parts.upper;
}

}  // namespace gradwire::lossy
