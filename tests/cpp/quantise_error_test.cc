// Quantisers' errors: unbiased where they say so, within the bound that is derived for them, and
// no looser than inputs that reach it. Seeds are fixed.

#include <algorithm>
#include <limits>
#include <random>

#include "quantise_testing.h"

namespace gradwire::lossy {
namespace {

constexpr int kSeeds = 3000;

TEST(CounterRandom, IsUniformAndIndependentOfNeighbours) {
  // Sums of n independent draws: means within 4 standard errors.
  constexpr std::uint32_t kDraws = 200000;
  for (const std::uint64_t seed : {0u, 1u, 77u}) {
    const RandomKey key(seed, 0);
    const RandomKey next_seed(seed + 1, 0);
    const RandomKey next_half(seed, std::uint64_t{1} << 32);
    double mean = 0, square = 0, of_index = 0, of_seed = 0, of_half = 0;
    for (std::uint32_t i = 0; i < kDraws; ++i) {
      const double u = double{random_unit(key, i)} - 0.5;
      mean += u;
      square += u * u;
      of_index += u * (double{random_unit(key, i + 1)} - 0.5);
      of_seed += u * (double{random_unit(next_seed, i)} - 0.5);
      of_half += u * (double{random_unit(next_half, i)} - 0.5);
    }
    const double root = std::sqrt(double{kDraws});
    EXPECT_NEAR(mean / kDraws, 0, 4 * std::sqrt(1.0 / 12) / root);
    EXPECT_NEAR(square / kDraws, 1.0 / 12, 4 * std::sqrt(1.0 / 180) / root);
    for (const double product : {of_index, of_seed, of_half})
      EXPECT_NEAR(product / kDraws, 0, 4 * (1.0 / 12) / root);
  }
}

TEST(CounterRandom, AllBitsAreFairAndAChangedIndexFlipsHalfOfThem) {
  constexpr std::uint32_t kDraws = 20000;
  const RandomKey key(3, 0);
  std::vector<double> ones(32), flips(32);
  for (std::uint32_t i = 0; i < kDraws; ++i) {
    const std::uint32_t bits = element_bits(key, i);
    const std::uint32_t changed = bits ^ element_bits(key, i ^ 1u << i % 32);
    for (unsigned bit = 0; bit < 32; ++bit) {
      ones[bit] += bits >> bit & 1;
      flips[bit] += changed >> bit & 1;
    }
  }
  const double tolerance = 4 * 0.5 / std::sqrt(double{kDraws});
  for (unsigned bit = 0; bit < 32; ++bit) {
    EXPECT_NEAR(ones[bit] / kDraws, 0.5, tolerance) << bit;
    EXPECT_NEAR(flips[bit] / kDraws, 0.5, std::sqrt(2.0) * tolerance) << bit;  // pairs repeat
  }
}

/// The symbols' values around |value|: a random choice between them has the variance
/// (|value| - below) (above - |value|).
struct Neighbours {
  double below;
  double above;
};

Neighbours neighbours(double size, double scale, const QuantiseOptions& options) {
  if (options.kind == natural) {
    const double below = size == 0 ? 0 : std::exp2(std::floor(std::log2(size)));
    return {below, 2 * below};
  }
  const double step = scale / (options.kind == ternary ? 1 : options.levels);
  const double below = step == 0 ? 0 : std::floor(size / step) * step;
  return {below, below + step};
}

void expect_unbiased(const QuantiseOptions& options, const Values& values, const Values& scales) {
  std::vector<double> mean(values.size());
  for (int seed = 0; seed < kSeeds; ++seed) {
    const Draws draws{.seed = static_cast<std::uint64_t>(seed), .first = 0};
    const Values back = restored(quantised(values, options, draws, scales), options);
    for (std::size_t i = 0; i < values.size(); ++i) mean[i] += double{back[i]} / kSeeds;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t bucket = options.bucket_values == 0 ? 0 : i / options.bucket_values;
    const double size = std::fabs(double{values[i]});
    const auto [below, above] =
        neighbours(size, scales.empty() ? 0 : double{scales[bucket]}, options);
    const double variance = std::max(size - below, 0.0) * std::max(above - size, 0.0);
    const double rounding = 0x1p-22 * (size + above - below);
    EXPECT_NEAR(mean[i], double{values[i]}, 4 * std::sqrt(variance / kSeeds) + rounding)
        << i << " " << values[i];
  }
}

TEST(Quantise, IsUnbiasedOverSeedsWhereItSaysSo) {
  int tried = 0;
  for (const Case& each : all_cases()) {
    if (!traits_of(each.options).unbiased) continue;
    SCOPED_TRACE(each.name);
    ++tried;
    const Values values = some_values(100, 6);
    Values scales;
    ASSERT_TRUE(measure_scales(values, each.options, scales));
    expect_unbiased(each.options, values, scales);
    for (float& scale : scales) scale *= 1.3F;  // agreed with ranks that have larger ones
    if (!scales.empty()) expect_unbiased(each.options, values, scales);
  }
  EXPECT_EQ(tried, 7);
}

/// Mean over seeds of |Q(x) - x|^2 / |x|^2, and its standard error.
struct Measured {
  double mean;
  double error;
};

Measured relative_error(const QuantiseOptions& options, const Values& values, int seeds) {
  double size = 0;
  for (const float value : values) size += double{value} * double{value};
  double sum = 0, squares = 0;
  for (int seed = 0; seed < seeds; ++seed) {
    const Draws draws{.seed = static_cast<std::uint64_t>(seed), .first = 0};
    const Values back = restored(quantised(values, options, draws), options);
    double error = 0;
    for (std::size_t i = 0; i < values.size(); ++i)
      error += std::pow(double{back[i]} - double{values[i]}, 2);
    sum += error / size;
    squares += std::pow(error / size, 2);
  }
  const double mean = sum / seeds;
  return {mean, std::sqrt(std::max(squares / seeds - mean * mean, 0.0) / seeds)};
}

/// Inputs of all sorts that gradients are of: even, normal, with heavy tails, nearly all zero.
std::vector<Values> inputs() {
  std::mt19937 random(8);
  std::normal_distribution<float> normal;
  std::vector<Values> all(5, Values(200));
  for (std::size_t i = 0; i < 200; ++i) {
    const float z = normal(random);
    all[0][i] = z < 0 ? -1.0F : 1.0F;
    all[1][i] = z;
    all[2][i] = z * z * z * 1e-6F;
    all[3][i] = i % 67 == 0 ? z * 1e3F : 0;
    all[4][i] = i == 10 ? 1.0F : 1e-3F;
  }
  return all;
}

TEST(Quantise, ErrsByNoMoreThanItsBound) {
  for (const Case& each : all_cases())
    for (const Values& values : inputs()) {
      SCOPED_TRACE(each.name);
      // The f16 of 1e-6 z^3 is below its normal range, for which no bound is promised.
      if (each.options.kind == f16 && std::fabs(values[0]) < 1e-4F && values[0] != 0) continue;
      const int seeds = traits_of(each.options).random ? 300 : 1;
      const Measured measured = relative_error(each.options, values, seeds);
      const double bound = error_bound(each.options, values.size());
      EXPECT_LE(measured.mean, bound * (1 + 0x1p-20) + 4 * measured.error);
      EXPECT_TRUE(bound < 1 || !traits_of(each.options).contractive);
    }
}

TEST(ErrorBound, IsReachedByTheWorstInput) {
  const auto expect_reached = [](const QuantiseOptions& options, const Values& values) {
    const bool random = traits_of(options).random;
    const Measured measured = relative_error(options, values, random ? 20000 : 1);
    const double bound = error_bound(options, values.size());
    EXPECT_NEAR(measured.mean, bound, 4 * measured.error + 1e-6 * bound);
  };
  expect_reached({.kind = ternary}, {3, 1, -1, 1});
  expect_reached({.kind = natural}, {4.0F / 3, -8.0F / 3});
  expect_reached({.kind = sign, .norm = Norm::l1}, {0, 0, 5, 0});
  expect_reached({.kind = sign, .norm = Norm::l2}, {0, 0, -5, 0});
  // 0.2 of 0.25: a value just under the middle.
  const QuantiseOptions one_level{.levels = 1, .rounding = Rounding::nearest};
  EXPECT_NEAR(relative_error(one_level, {1, 0.4999999F}, 1).mean, 0.2, 1e-6);
}

TEST(Traits, SayWhatMayBeCombined) {
  static_assert(traits_of({}).unbiased && traits_of({}).additive && traits_of({}).needs_shared);
  static_assert(traits_of({}).contractive && traits_of({}).symbol_bytes == 1);
  static_assert(traits_of({.levels = 128}).symbol_bytes == 2);
  static_assert(!traits_of({.levels = 7}).contractive, "512 values of 4 * 49");
  static_assert(!traits_of({.bucket_values = 0}).contractive, "a bucket without a limit");
  static_assert(!traits_of({.rounding = Rounding::nearest}).unbiased);
  static_assert(traits_of({.levels = 1, .rounding = Rounding::nearest}).contractive);
  static_assert(!traits_of({.norm = Norm::l2, .rounding = Rounding::nearest}).contractive);
  static_assert(!traits_of({.kind = ternary, .clip_deviations = 2.5F}).unbiased);
  static_assert(!traits_of({.kind = sign, .norm = Norm::l2}).contractive);
  static_assert(!traits_of({.kind = natural}).additive && traits_of({.kind = natural}).unbiased);
  // Where the traits say contractive the bound is below 1, however many values there are.
  for (const Case& each : all_cases()) {
    const bool shrinks = error_bound(each.options, 1'000'000'000) < 1;
    EXPECT_TRUE(shrinks || !traits_of(each.options).contractive) << each.name;
  }
}

}  // namespace
}  // namespace gradwire::lossy
