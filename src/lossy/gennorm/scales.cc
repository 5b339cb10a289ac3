#include "lossy/gennorm/scales.h"

#include <algorithm>
#include <cmath>

#include "base/buckets.h"
#include "lossy/gennorm/distribution.h"
#include "lossy/gennorm/loops.h"

namespace gradwire::lossy {
namespace {

constexpr int kLeastExponent = -149;  // of a float: then all floats are multiples of the unit
constexpr int kMostExponent = 127;

double largest_number(const GennormOptions& options) noexcept {
  const double fraction = (2u << options.fraction_bits) - 1;
  return std::ldexp(fraction, (1 << options.exponent_bits) - 2);
}

/// The least power of two that is at least x.
int ceil_exponent(double x) noexcept {
  const int exponent = std::ilogb(x);
  return std::ldexp(1.0, exponent) < x ? exponent + 1 : exponent;
}

double root_mean_square(const BucketSums& sums) noexcept {
  return std::sqrt(sums.squares / static_cast<double>(sums.count));
}

/// The moment ratio of buckets whose values are divided by their own root mean square.
double common_ratio(std::span<const BucketSums> buckets) noexcept {
  double magnitudes = 0;
  double count = 0;
  for (const BucketSums& sums : buckets) {
    if (sums.count == 0) continue;
    magnitudes += sums.magnitudes / root_mean_square(sums);
    count += static_cast<double>(sums.count);
  }
  return magnitudes / count * (magnitudes / count);
}

/// The exponent of the unit: the least that clips nothing, then lower ones while the error falls.
int fitted_exponent(std::span<const float> values, const GennormOptions& options, float largest) {
  const int covering = ceil_exponent(double{largest} / largest_number(options));
  int best = std::clamp(covering, kLeastExponent, kMostExponent);
  if (options.bias == FloatBias::largest) return best;
  const auto error_at = [&](int exponent) {
    const FloatType type{options.exponent_bits, options.fraction_bits, exponent};
    return std::ldexp(float_error(values.data(), values.size(), type), 2 * exponent);
  };
  double least = error_at(best);
  for (; best > kLeastExponent; --best) {
    const double error = error_at(best - 1);
    if (!(error < least)) break;
    least = error;
  }
  return best;
}

float scale_of(std::span<const float> values, const BucketSums& sums,
               const GennormOptions& options) {
  if (sums.count == 0) return 0;
  if (options.grid != Grid::float_bits) return static_cast<float>(root_mean_square(sums));
  return std::ldexp(1.0F, fitted_exponent(values, options, sums.largest));
}

/// The root mean square of all that is not zero, in scales.
float spread_of(std::span<const BucketSums> buckets, std::span<const float> scales) noexcept {
  double squares = 0;
  double count = 0;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    if (buckets[i].count == 0) continue;
    squares += buckets[i].squares / (double{scales[i]} * double{scales[i]});
    count += static_cast<double>(buckets[i].count);
  }
  return static_cast<float>(std::sqrt(squares / count));
}

}  // namespace

bool fit(std::span<const float> values, const GennormOptions& options, std::vector<float>& scales,
         GennormModel& model) {
  std::vector<BucketSums> buckets;
  bool finite = true;
  std::size_t nonzero = 0;
  for_each_bucket(values.size(), options.bucket_values,
                  [&](std::size_t, std::size_t begin, std::size_t n) {
                    buckets.push_back(measure(values.data() + begin, n));
                    finite = finite && std::isfinite(buckets.back().squares);
                    nonzero += buckets.back().count;
                  });
  if (!finite) return false;
  model = {};
  scales.assign(buckets.size(), 0);
  if (nonzero == 0) {
    model.zeros = values.empty() ? 0 : 65535;
    return true;
  }
  model.level_row = static_cast<std::uint8_t>(nearest_row(beta_of_ratio(common_ratio(buckets))));
  model.code_row = model.level_row;
  for_each_bucket(values.size(), options.bucket_values,
                  [&](std::size_t bucket, std::size_t at, std::size_t n) {
                    scales[bucket] = scale_of(values.subspan(at, n), buckets[bucket], options);
                  });
  const auto zeros = static_cast<double>(values.size() - nonzero);
  model.zeros =
      static_cast<std::uint16_t>(zeros * 65535 / static_cast<double>(values.size()) + 0.5);
  if (options.grid == Grid::float_bits) model.spread = spread_of(buckets, scales);
  return true;
}

}  // namespace gradwire::lossy
