// The generalised normal distribution: its functions against known values, fits against the
// distribution that values were drawn from, levels against published optima and Lloyd's conditions.

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <numbers>

#include "base/bytes.h"
#include "base/hash.h"
#include "gennorm_testing.h"

namespace gradwire::lossy {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Gennorm, OfTwoIsNormalAndOfOneLaplace) {
  const Gennorm normal{2, std::numbers::sqrt2 * 3};  // a deviation of 3
  const Gennorm laplace{1, 0.5};
  for (const double x : {-40.0, -7.5, -3.0, -0.1, 0.0, 1e-9, 0.25, 2.0, 11.0, 29.0}) {
    EXPECT_NEAR(normal.below(x), 0.5 * std::erfc(-x / 3 / std::numbers::sqrt2), 1e-14) << x;
    EXPECT_NEAR(normal.density(x), std::exp(-x * x / 18) / (3 * std::sqrt(2 * std::numbers::pi)),
                1e-13);
    const double tail = 0.5 * std::exp(-std::abs(x) / 0.5);
    EXPECT_NEAR(laplace.below(x), x < 0 ? tail : 1 - tail, 1e-14) << x;
    EXPECT_NEAR(laplace.density(x), 2 * tail, 1e-13);
  }
  EXPECT_NEAR(normal.below(-30) / (0.5 * std::erfc(10 / std::numbers::sqrt2)), 1, 1e-11)
      << "tails are exact relative to themselves";
}

TEST(Gennorm, TheDensityIsTheSlopeOfTheProbability) {
  for (const double beta : {0.125, 0.3, 0.7, 1.5, 8.0}) {
    const Gennorm model{beta, 2};
    for (const double x : {-3.0, -0.5, 0.01, 1.0, 2.5}) {
      const double step = 1e-4 * std::abs(x);
      const double slope = (model.below(x + step) - model.below(x - step)) / (2 * step);
      EXPECT_NEAR(slope / model.density(x), 1, 1e-4) << beta << " " << x;
    }
  }
}

TEST(Gennorm, PartsOfMomentsAddUp) {
  for (const double beta : {0.125, 0.5, 1.0, 2.0, 8.0})
    for (const double moment : {0.0, 1.0, 2.0, 9.0}) {
      const double all = std::exp(std::lgamma((moment + 1) / beta) - std::lgamma(1 / beta));
      const double cut = std::pow((moment + 1) / beta, 1 / beta);  // near its middle
      double sum = 0;
      for (int i = 0; i < 20; ++i)
        sum += part_of_moment(beta, moment, cut * i / 10, cut * (i + 1) / 10);
      sum += part_of_moment(beta, moment, 2 * cut, kInfinity);
      EXPECT_NEAR(sum / all, 1, 1e-11) << beta << " " << moment;
    }
}

TEST(Gennorm, TheMomentRatioGrowsWithBetaAndIsInverted) {
  EXPECT_NEAR(moment_ratio(1), 0.5, 1e-13);
  EXPECT_NEAR(moment_ratio(2), 2 / std::numbers::pi, 1e-13);
  double last = 0;
  for (unsigned row = 0; row < kBetaRows; ++row) {
    const double beta = beta_of_row(row);
    const double ratio = moment_ratio(beta);
    EXPECT_GT(ratio, last);
    last = ratio;
    EXPECT_NEAR(beta_of_ratio(ratio) / beta, 1, 1e-9) << beta;
    EXPECT_EQ(nearest_row(beta), row);
  }
  EXPECT_EQ(beta_of_row(0), kLeastBeta);
  EXPECT_EQ(beta_of_row(48), 1);
  EXPECT_EQ(beta_of_row(64), 2);
  EXPECT_EQ(beta_of_row(96), kMostBeta);
  EXPECT_EQ(beta_of_ratio(1), kMostBeta) << "values of one magnitude";
  EXPECT_EQ(beta_of_ratio(0), kLeastBeta);
}

/// (E|x|)^2 / E x^2 of values.
double ratio_of(const Values& values) {
  double magnitudes = 0;
  double squares = 0;
  for (const float value : values) {
    magnitudes += std::abs(double{value});
    squares += double{value} * double{value};
  }
  return magnitudes * magnitudes / squares / static_cast<double>(values.size());
}

TEST(Gennorm, BetaIsFoundFromValues) {
  EXPECT_NEAR(beta_of_ratio(ratio_of(gennorm_values(0.7, 1e-3, 200000))), 0.7, 0.02);
  EXPECT_NEAR(beta_of_ratio(ratio_of(gennorm_values(1, 5, 200000))), 1, 0.02);
  EXPECT_NEAR(beta_of_ratio(ratio_of(gennorm_values(2, 1e9, 200000))), 2, 0.04);
}

TEST(Levels, OfTheNormalDistributionHaveTheKnownErrors) {
  // Max 1960, table I, and its closed form for two levels.
  EXPECT_NEAR(expected_error(*lloyd_levels(64, 2, 0), 2), 1 - 2 / std::numbers::pi, 1e-6);
  EXPECT_NEAR(expected_error(*lloyd_levels(64, 4, 0), 2), 0.1175, 5e-5);
  EXPECT_NEAR(expected_error(*lloyd_levels(64, 8, 0), 2), 0.03454, 1e-5);
  EXPECT_NEAR(lloyd_levels(64, 2, 0)->back(), std::sqrt(2 / std::numbers::pi), 1e-6);
  const Levels laplace = *lloyd_levels(48, 3, 0);  // 0 and +-sqrt 2 by hand
  EXPECT_NEAR(laplace[2], std::numbers::sqrt2, 1e-6);
  EXPECT_EQ(laplace[1], 0);
}

/// The largest distance of a level from the weighted centroid of its cell, relative to the level.
/// The cells of the upper half, in units of alpha.
double off_centroid(const Levels& levels, double beta, double weight_power) {
  const double alpha = unit_alpha(beta);
  double worst = 0;
  for (std::size_t i = levels.size() / 2; i < levels.size(); ++i) {
    if (levels[i] == 0) continue;
    const double level = double{levels[i]} / alpha;
    const double from = std::max(0.0, 0.5 * (level + double{levels[i - 1]} / alpha));
    const double to =
        i + 1 < levels.size() ? 0.5 * (level + double{levels[i + 1]} / alpha) : kInfinity;
    const double centroid = part_of_moment(beta, weight_power + 1, from, to) /
                            part_of_moment(beta, weight_power, from, to);
    worst = std::max(worst, std::abs(centroid / level - 1));
  }
  return worst;
}

TEST(Levels, MeetLloydsConditionsForEveryRow) {
  for (unsigned row = 0; row < kBetaRows; row += 8)
    for (const unsigned weight_power : {0u, 1u, 8u})
      for (const unsigned count : {2u, 3u, 4u, 15u, 64u, 255u}) {
        SCOPED_TRACE(::testing::Message() << row << " " << weight_power << " " << count);
        const Levels levels = *lloyd_levels(row, count, weight_power);
        ASSERT_EQ(levels.size(), count);
        for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(levels[i], -levels[count - 1 - i]);
        EXPECT_EQ(std::ranges::adjacent_find(levels, std::greater_equal<>()), levels.end())
            << "ascending";
        EXPECT_LT(off_centroid(levels, beta_of_row(row), weight_power), 4e-6);  // f32 levels
      }
}

TEST(Levels, MoreOfThemErrLessAndAWeightMovesThemOutwards) {
  double last = 1;
  for (unsigned count = 3; count < 256; count += 12) {
    const double error = expected_error(*lloyd_levels(40, count, 0), beta_of_row(40));
    EXPECT_LT(error, last);
    last = error;
  }
  float outermost = 0;
  for (unsigned weight_power = 0; weight_power <= kMostWeightPower; ++weight_power) {
    const float level = lloyd_levels(40, 7, weight_power)->back();
    EXPECT_GT(level, outermost);
    outermost = level;
  }
}

TEST(Levels, AreTheSameOnEveryComputer) {
  Bytes bytes;
  ByteWriter writer(bytes);
  for (const unsigned row : {0u, 37u, 64u, 96u})
    for (const unsigned weight_power : {0u, 3u})
      for (const float level : *lloyd_levels(row, 31, weight_power))
        writer.u32(std::bit_cast<std::uint32_t>(level));
  EXPECT_EQ(hash64(bytes), 0x54766e7a68a0af9cu);
}

TEST(Levels, OfFloatTypesAreTheirNumbers) {
  EXPECT_EQ(float_levels(2, 1), (Levels{-12, -8, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12}));
  EXPECT_EQ(float_levels(1, 2), (Levels{-7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(float_levels(7, 0).back(), 0x1p126F);
}

}  // namespace
}  // namespace gradwire::lossy
