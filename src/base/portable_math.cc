#include "base/portable_math.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <numbers>

namespace gradwire {
namespace {

constexpr double kLn2High = 0x1.62e42fefa0000p-1;  // 17 zero bits at the end: n * kLn2High is exact
constexpr double kLn2Low = 0x1.cf79abc9e3b3ap-40;
constexpr double kHalfLogTwoPi = 0.91893853320467274178;

}  // namespace

double natural_log(double x) noexcept {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  auto m = std::bit_cast<double>((bits & 0xfffffffffffff) | 0x3ff0000000000000);
  if (m > std::numbers::sqrt2) {
    m *= 0.5;
    ++exponent;
  }
  const double z = (m - 1) / (m + 1);  // |z| < 0.172: 13 terms reach 2^-64
  const double square = z * z;
  double series = 0;
  for (int k = 25; k >= 1; k -= 2) series = series * square + 1.0 / k;
  return exponent * kLn2High + (exponent * kLn2Low + 2 * z * series);
}

double exponential(double x) noexcept {
  if (x < -700) return 0;
  if (x > 700) x = 700;
  const double n = std::floor(x * std::numbers::log2e + 0.5);
  const double r = (x - n * kLn2High) - n * kLn2Low;  // |r| < 0.347: 15 terms reach 2^-64
  double series = 1;
  for (int k = 15; k >= 1; --k) series = 1 + series * r / k;
  return series *
         std::bit_cast<double>(static_cast<std::uint64_t>(static_cast<int>(n) + 1023) << 52);
}

double log_gamma(double x) noexcept {
  double product = 1;
  for (; x < 8; x += 1) product *= x;  // Gamma(x + 1) = x Gamma(x)
  const double inverse = 1 / x;
  const double square = inverse * inverse;
  double series = -691.0 / 360360;  // Stirling's series: its next term is under 2e-15 at x = 8
  for (const double c : {1.0 / 1188, -1.0 / 1680, 1.0 / 1260, -1.0 / 360, 1.0 / 12}) {
    series = series * square + c;
  }
  return (x - 0.5) * natural_log(x) - x + kHalfLogTwoPi + series * inverse - natural_log(product);
}

}  // namespace gradwire
