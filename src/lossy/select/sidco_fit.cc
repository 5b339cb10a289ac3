#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>

#include "base/clones.h"
#include "base/portable_math.h"
#include "lossy/select/magnitude.h"
#include "lossy/select/sidco.h"

namespace gradwire::lossy {
namespace {

constexpr std::size_t kLanes = 8;
constexpr double kFirstShare = 0.25;
constexpr std::size_t kFewest = 16;  // survivors that are worth a fit

template <typename T>
using Lanes = std::array<T, kLanes>;

template <typename T>
T total(Lanes<T> sums) noexcept {
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t j = 0; j < half; ++j) sums[j] += sums[j + half];
  }
  return sums[0];
}

struct Sums {
  Lanes<std::int32_t> counts{};
  Lanes<double> values{};
  Lanes<double> squares{};
};

/// All ones for magnitudes from `low` (above 0) up to infinity, else 0. No comparison, which would
/// keep the compiler from using vectors.
inline std::int32_t mask_of(std::uint32_t magnitude, std::uint32_t low) noexcept {
  const auto above = static_cast<std::int32_t>(low - 1 - magnitude) >> 31;
  return above & static_cast<std::int32_t>(magnitude - kInfinity) >> 31;
}

/// Adds a magnitude to each lane, or 0.
inline void add_row(const std::uint32_t* row, std::uint32_t low, Sums& sums) noexcept {
  for (std::size_t j = 0; j < kLanes; ++j) {
    const std::int32_t mask = mask_of(row[j], low);
    const double value = std::bit_cast<float>(static_cast<std::int32_t>(row[j]) & mask);
    sums.counts[j] -= mask;
    sums.values[j] += value;
    sums.squares[j] += value * value;
  }
}

GRADWIRE_CLONES void add_rows(const std::uint32_t* words, std::size_t n, std::uint32_t low,
                              Sums& result) noexcept {
  Sums sums;
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) add_row(words + i, low, sums);
  Lanes<std::uint32_t> rest{};
  std::copy(words + i, words + n, rest.begin());
  add_row(rest.data(), low, sums);
  result = sums;
}

/// ln of a product needs one logarithm: mantissas, in [1, 2), are multiplied up to 2^1008 at most.
constexpr std::size_t kRowsOfProduct = 1008;

GRADWIRE_CLONES void multiply_rows(const std::uint32_t* words, std::size_t n,
                                   Lanes<std::int64_t>& exponents,
                                   Lanes<double>& products) noexcept {
  for (std::size_t i = 0; i < n; i += kLanes) {
    const std::size_t lanes = n - i < kLanes ? n - i : kLanes;
    for (std::size_t j = 0; j < lanes; ++j) {
      const bool is_in = words[i + j] - 1 < kInfinity - 1;
      const auto value = is_in ? static_cast<double>(std::bit_cast<float>(words[i + j])) : 1.0;
      const auto bits = std::bit_cast<std::uint64_t>(value);
      exponents[j] += static_cast<std::int64_t>(bits >> 52) - 1023;
      products[j] *= std::bit_cast<double>((bits & 0xfffffffffffff) | 0x3ff0000000000000);
    }
  }
}

double threshold_of(SidcoModel model, bool first, std::span<const std::uint32_t> magnitudes,
                    const Moments& moments, double p) {
  if (model == SidcoModel::exponential) return exponential_threshold(moments, p);
  if (model == SidcoModel::pareto || !first) return pareto_threshold(moments, p);
  const double mean_log = sum_log(magnitudes) / static_cast<double>(moments.count);
  const double step = gamma_threshold(moments, mean_log, p);
  return step > 0 ? step : pareto_threshold(moments, p);  // heavy tails: no gamma's threshold
}

/// The share that this stage aims at, so that all that are left reach `remaining` together.
double share_of(double remaining, unsigned stage, unsigned stages) {
  const unsigned left = stages - stage;
  if (left == 1 || remaining >= kFirstShare) return remaining;
  if (stage == 0) return kFirstShare;
  return exponential(natural_log(remaining) / left);
}

}  // namespace

Moments excess_moments(std::span<const std::uint32_t> magnitudes, std::uint32_t low,
                       double location) noexcept {
  Sums sums;
  add_rows(magnitudes.data(), magnitudes.size(), low, sums);
  Lanes<std::int64_t> counts;  // of the lanes: 2^29 at most
  std::copy(sums.counts.begin(), sums.counts.end(), counts.begin());
  Moments moments{static_cast<std::size_t>(total(counts)), 0, 0};
  if (moments.count == 0) return moments;
  const auto count = static_cast<double>(moments.count);
  const double mean = total(sums.values) / count;
  moments.mean = mean - location;
  moments.variance = total(sums.squares) / count - mean * mean;
  return moments;
}

double sum_log(std::span<const std::uint32_t> magnitudes) noexcept {
  Lanes<std::int64_t> exponents{};
  Lanes<double> logs{};
  const std::size_t piece = kRowsOfProduct * kLanes;
  for (std::size_t at = 0; at < magnitudes.size(); at += piece) {
    Lanes<double> products;
    products.fill(1);
    const std::size_t n = magnitudes.size() - at < piece ? magnitudes.size() - at : piece;
    multiply_rows(magnitudes.data() + at, n, exponents, products);
    for (std::size_t j = 0; j < kLanes; ++j) logs[j] += natural_log(products[j]);
  }
  return static_cast<double>(total(exponents)) * std::numbers::ln2 + total(logs);
}

double exponential_threshold(const Moments& moments, double p) noexcept {
  return -moments.mean * natural_log(p);
}

double pareto_threshold(const Moments& moments, double p) noexcept {
  const double ratio = moments.mean * moments.mean / moments.variance;
  const double shape = 0.5 * (ratio - 1);
  const double scale = 0.5 * moments.mean * (ratio + 1);
  const double log_p = natural_log(p);
  if (std::abs(shape) < 1e-6) return -scale * log_p;  // 1 - p^shape would cancel
  return scale * (1 - exponential(shape * log_p)) / shape;
}

double gamma_threshold(const Moments& moments, double log_mean, double p) noexcept {
  const double s = natural_log(moments.mean) - log_mean;
  const double shape = (3 - s + std::sqrt((s - 3) * (s - 3) + 24 * s)) / (12 * s);
  if (!(shape > 0 && shape < 1e6)) return 0;  // all magnitudes are equal
  const double scale = moments.mean / shape;
  return -scale * (natural_log(p) + log_gamma(shape));
}

std::optional<std::uint32_t> sidco_threshold(std::span<const std::uint32_t> magnitudes,
                                             double wanted, SidcoModel model, unsigned stages) {
  std::uint32_t low = 1;
  double location = 0;
  for (unsigned stage = 0; stage < stages; ++stage) {
    const Moments moments = excess_moments(magnitudes, low, location);
    const auto survivors = static_cast<double>(moments.count);
    if (survivors <= wanted || (stage > 0 && moments.count < kFewest)) break;
    const double remaining = wanted / survivors;
    const double share = share_of(remaining, stage, stages);
    const double step = threshold_of(model, stage == 0, magnitudes, moments, share);
    if (!(moments.variance > 0 && step > 0 && step < 0x1p128)) {
      if (stage == 0) return std::nullopt;
      break;
    }
    location += step;
    low = magnitude_above(location);
    if (share == remaining) break;
  }
  return low;
}

}  // namespace gradwire::lossy
