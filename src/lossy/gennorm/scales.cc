#include "lossy/gennorm/scales.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <mutex>

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

/// To the nearest power of two in octaves.
int nearest_exponent(double x) noexcept {
  const int exponent = std::ilogb(x);
  return x * x > std::ldexp(2.0, 2 * exponent) ? exponent + 1 : exponent;
}

double root_mean_square(const BucketSums& sums) noexcept {
  return std::sqrt(sums.squares / static_cast<double>(sums.count));
}

/// Searches the largest number, which is what the error depends on, from half a root mean square:
/// by octaves while it helps, then by quarters.
double search_unit(const GennormOptions& options, unsigned beta_row) {
  const double beta = beta_of_row(beta_row);
  const Levels levels = float_levels(options.exponent_bits, options.fraction_bits);
  const double most = largest_number(options);
  const auto error_at = [&](double quarters) {
    const double unit = power(2, 0.25 * quarters) / most;
    Levels scaled(levels.size());
    std::transform(levels.begin(), levels.end(), scaled.begin(),
                   [unit](float level) { return static_cast<float>(double{level} * unit); });
    return expected_error(scaled, beta);
  };
  double best = -4;
  double least = error_at(best);
  const auto try_at = [&](double quarters) {
    const double error = error_at(quarters);
    if (!(error < least)) return false;
    least = error;
    best = quarters;
    return true;
  };
  for (double octave = 0; octave <= 72 && try_at(octave); octave += 4) continue;
  const double middle = best;
  for (const double quarter : {-3, -2, -1, 1, 2, 3}) try_at(middle + quarter);
  return power(2, 0.25 * best) / most;
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

float scale_of(const BucketSums& sums, const GennormOptions& options, unsigned beta_row) {
  if (sums.count == 0) return 0;
  const double deviation = root_mean_square(sums);
  if (options.grid != Grid::float_bits) return static_cast<float>(deviation);
  const int exponent = options.bias == FloatBias::largest
                           ? covering_exponent(options, double{sums.largest})
                           : nearest_exponent(deviation * best_unit(options, beta_row));
  return std::ldexp(1.0F, std::clamp(exponent, kLeastExponent, kMostExponent));
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

int covering_exponent(const GennormOptions& options, double largest) noexcept {
  return ceil_exponent(largest / largest_number(options));
}

double best_unit(const GennormOptions& options, unsigned beta_row) {
  using Key = std::array<unsigned, 3>;
  static std::mutex mutex;
  static std::map<Key, double> kept;  // kBetaRows x 28 types at most
  const std::lock_guard lock(mutex);
  const Key key{beta_row, options.exponent_bits, options.fraction_bits};
  if (const auto found = kept.find(key); found != kept.end()) return found->second;
  return kept[key] = search_unit(options, beta_row);
}

bool fit(std::span<const float> values, const GennormOptions& options, std::vector<float>& scales,
         GennormModel& model) {
  std::vector<BucketSums> buckets;
  bool finite = true;
  std::size_t nonzero = 0;
  for_each_bucket(options, values.size(), [&](std::size_t, std::size_t begin, std::size_t n) {
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
  for (std::size_t i = 0; i < buckets.size(); ++i)
    scales[i] = scale_of(buckets[i], options, model.level_row);
  const auto zeros = static_cast<double>(values.size() - nonzero);
  model.zeros =
      static_cast<std::uint16_t>(zeros * 65535 / static_cast<double>(values.size()) + 0.5);
  if (options.grid == Grid::float_bits) model.spread = spread_of(buckets, scales);
  return true;
}

}  // namespace gradwire::lossy
