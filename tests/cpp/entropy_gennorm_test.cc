#include <numeric>

#include "entropy_testing.h"
#include "stages/entropy/gennorm.h"
#include "stages/entropy/table.h"

namespace gradwire::entropy {
namespace {

constexpr std::uint64_t kTotal = 1u << 20;

GennormParameters parameters(unsigned shape, unsigned scale, unsigned more = 0) {
  return {static_cast<std::uint8_t>(shape), static_cast<std::uint8_t>(scale),
          static_cast<std::uint16_t>(more)};
}

std::vector<std::uint64_t> weights_of(const GennormParameters& given, unsigned alphabet) {
  std::vector<std::uint64_t> weights(alphabet);
  EXPECT_TRUE(gennorm_weights(given, weights));
  return weights;
}

std::vector<std::uint64_t> weights_of(unsigned shape, unsigned scale, unsigned alphabet) {
  return weights_of(parameters(shape, scale), alphabet);
}

unsigned mixture(unsigned row, unsigned median, unsigned share) {
  return row | median << 4 | share << 10;
}

bool exists(unsigned shape, unsigned scale, unsigned alphabet) {
  std::vector<std::uint64_t> weights(alphabet);
  return gennorm_weights(parameters(shape, scale), weights);
}

/// Counts of a hundred thousand residuals of Laplace variables, floor(log2 |x|) less the window.
std::vector<std::uint32_t> laplace_counts(double median_octaves, unsigned alphabet) {
  std::mt19937_64 random(1);
  std::vector<std::uint32_t> counts(alphabet);
  for (int i = 0; i < 100000; ++i) {
    const double magnitude = -std::log2(static_cast<double>((random() >> 11) + 1) * 0x1p-53);
    const double octave = std::floor(std::log2(magnitude) + median_octaves);
    const bool inside = octave >= 0 && octave < alphabet - 2;
    ++counts[inside ? static_cast<std::size_t>(octave) : alphabet - 1];
  }
  return counts;
}

double cost(const std::vector<std::uint32_t>& counts, const std::vector<std::uint64_t>& weights) {
  const auto total =
      static_cast<double>(std::accumulate(weights.begin(), weights.end(), std::uint64_t{0}));
  double bits = 0;
  for (std::size_t s = 0; s < counts.size(); ++s) {
    bits -= counts[s] * std::log2(static_cast<double>(weights[s]) / total);
  }
  return bits;
}

TEST(Gennorm, HalfTheWeightLiesBelowTheMedian) {
  // A = 4: one window of two octaves, median 4 quarter octaves above its start: between them.
  for (unsigned row = 0; row < 16; ++row) {
    const auto weights = weights_of(row, 4, 4);
    EXPECT_EQ(weights[2], 256u) << "zero";
    EXPECT_EQ(weights[0] + weights[1] + weights[3], kTotal + 3 * 256);
    // Laplace: P(1/2 median < |x| < median) = 1/2 - (1 - 2^-1/2); up to twice the median: 1/4.
    if (row == 9) {
      EXPECT_NEAR(static_cast<double>(weights[0]), kTotal * (std::sqrt(0.5) - 0.5) + 256, 1);
      EXPECT_NEAR(static_cast<double>(weights[1]), kTotal * 0.25 + 256, 1);
    }
  }
}

TEST(Gennorm, ShapesAreThoseOfTheFormat) {
  EXPECT_EQ(gennorm_shape(0), 0.3);
  EXPECT_EQ(gennorm_shape(9), 1.0);
  EXPECT_EQ(gennorm_shape(14 | 0x30), 2.0);
  EXPECT_EQ(gennorm_shape(15), 2.5);
}

TEST(Gennorm, EveryTableIsCodableAndSumsUp) {
  constexpr std::uint64_t kZeros[] = {0, 1u << 14, 1u << 17, 1u << 19};
  for (unsigned shape = 0; shape < 0x60; ++shape) {
    for (unsigned scale = 0; scale < 256; ++scale) {
      for (const unsigned alphabet : {4u, 16u, 64u, 126u}) {
        const auto weights = weights_of(shape, scale, alphabet);
        const std::uint64_t sum = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
        const std::uint64_t whole = kTotal + 256 * alphabet + kZeros[scale >> 6];
        ASSERT_LE(sum, whole);
        ASSERT_GE(sum + alphabet, whole);  // a half may be lost in each flip
        ASSERT_GE(*std::min_element(weights.begin(), weights.end()), 256u);
      }
    }
  }
}

TEST(Gennorm, FlipsShareAResidualsWeightEvenly) {
  const auto plain = weights_of(7, 30, 9);  // V = 7
  const auto flips = weights_of(7 | 16, 30, 16);
  for (std::size_t v = 0; v < 7; ++v) {
    EXPECT_EQ(flips[2 * v], flips[2 * v + 1]);
    EXPECT_EQ(flips[2 * v], (plain[v] - 256) / 2 + 256);
  }
  EXPECT_EQ(flips[15], plain[8]);
}

TEST(Gennorm, StepsOfQuarterOctavesAddUpToOctaves) {
  const auto octaves = weights_of(5, 20, 2 + 5);
  const auto quarters = weights_of(5 | 2 << 5, 20, 2 + 20);
  for (std::size_t v = 0; v < 5; ++v) {
    std::uint64_t sum = 0;
    for (std::size_t k = 0; k < 4; ++k) sum += quarters[4 * v + k] - 256;
    EXPECT_EQ(octaves[v] - 256, sum);
  }
}

TEST(Gennorm, AMixtureOfOnePartIsThatPart) {
  const auto first = weights_of(3, 30, 16);
  const auto second = weights_of(11, 44, 16);
  EXPECT_EQ(weights_of(parameters(3 | 128, 30, mixture(11, 44, 0)), 16), first);
  const auto half = weights_of(parameters(3 | 128, 30, mixture(11, 44, 32)), 16);
  for (std::size_t v = 0; v < 14; ++v) {
    EXPECT_NEAR(static_cast<double>(half[v]), static_cast<double>(first[v] + second[v]) / 2, 1);
  }
}

TEST(Gennorm, ANormalVariableAboutAMean) {
  // Octaves from 1 on; mean 16, median distance 2^3: a standard deviation of 8 / 0.67449.
  const auto weights = weights_of(parameters(14 | 16 | 128, 12, 64), 2 + 2 * 7);
  const double sigma = 8 / 0.67448975;
  const auto below = [&](double x) { return std::erfc((16 - x) / sigma / std::sqrt(2.0)) / 2; };
  for (int v = 0; v < 7; ++v) {
    const double low = std::exp2(v);
    const double same = kTotal * (below(2 * low) - below(low)) + 256;
    const double other = kTotal * (below(-low) - below(-2 * low)) + 256;
    // The density is even within a quarter octave of distance; far from the mean that is seen.
    EXPECT_NEAR(static_cast<double>(weights[static_cast<std::size_t>(2 * v)]), same, same * 0.1);
    EXPECT_NEAR(static_cast<double>(weights[static_cast<std::size_t>(2 * v + 1)]), other,
                other * 0.1);
  }
}

TEST(Gennorm, EveryTableWithAMeanOrAMixtureIsCodable) {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 20000; ++trial) {
    const auto shape = static_cast<unsigned>(random() % 0x60) | 128;
    const auto given = parameters(shape, random() & 255, random() & 0xffff);
    const unsigned alphabet = 2 * (2 + static_cast<unsigned>(random() % 62));
    const auto weights = weights_of(given, alphabet);
    const std::uint64_t sum = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
    const std::uint64_t zero = weights[alphabet - 2] - 256;
    ASSERT_LE(sum, kTotal + 256 * alphabet + zero + 1);
    ASSERT_GE(sum + alphabet, kTotal + 256 * alphabet + zero);
    ASSERT_GE(*std::min_element(weights.begin(), weights.end()), 256u);
  }
}

TEST(Gennorm, LongWindowsAreCountedFromTheirEnd) {
  // 20 octaves: the origin is 4 octaves above the start, and what lies 5 to 19 octaves above the
  // start is like the residuals 1 to 15 of a window of 16 octaves.
  const auto shorter = weights_of(9, 48, 2 + 16);
  const auto longer = weights_of(9, 48, 2 + 20);
  for (std::size_t v = 0; v < 16; ++v) EXPECT_EQ(longer[v + 4], shorter[v]);
  const auto flips = weights_of(parameters(9 | 16 | 128, 40, 200), 2 + 2 * 16);
  const auto more_flips = weights_of(parameters(9 | 16 | 128, 40, 200), 2 + 2 * 20);
  for (std::size_t s = 0; s < 32; ++s) EXPECT_EQ(more_flips[s + 8], flips[s]);
}

TEST(Gennorm, WhatIsNoTableIsRefused) {
  EXPECT_FALSE(exists(0x60, 0, 16)) << "step_log2 3";
  EXPECT_FALSE(exists(0x10, 0, 15)) << "flips and an odd alphabet";
  EXPECT_FALSE(exists(0, 0, 2)) << "no residual";
  EXPECT_FALSE(exists(0, 0, 0));
  EXPECT_FALSE(exists(0, 0, 127));
  EXPECT_FALSE(exists(0, 0, 256));
  Table table;
  table.source = Source::gennorm;
  table.pairs = true;
  EXPECT_THROW(resolve(table, 16, "test"), Error);
  table.pairs = false;
  EXPECT_THROW(resolve(table, 256, "test"), Error);
  EXPECT_NO_THROW(resolve(table, 16, "test"));
}

TEST(FitGennorm, FindsTheParametersThatMadeTheCounts) {
  for (const unsigned shape : {1u, 4u, 9u, 12u, 9u | 1u << 5, 6u | 16u}) {
    for (const unsigned scale : {12u, 20u, 25u | 1u << 6, 16u | 3u << 6}) {
      const auto weights = weights_of(shape, scale, 16);
      const std::vector<std::uint32_t> counts(weights.begin(), weights.end());
      const auto fit = fit_gennorm(counts, {shape >> 5, (shape >> 4 & 1) != 0});
      ASSERT_TRUE(fit);
      EXPECT_EQ(fit->shape, shape);
      EXPECT_EQ(fit->scale, scale);
    }
  }
}

TEST(FitGennorm, LaplaceSamplesCostTheirEntropyAndTwoThousandths) {
  for (const double median : {6.0, 8.3, 11.7}) {
    const auto counts = laplace_counts(median, 16);
    const auto fit = fit_gennorm(counts, {});
    ASSERT_TRUE(fit);
    EXPECT_NEAR(gennorm_shape(fit->shape), 1.0, 0.15);
    const double bits = cost(counts, weights_of(*fit, 16));
    EXPECT_LT(bits, testing::entropy_bits(counts) + 100000 * 0.008);
  }
}

TEST(FitGennormMore, FindsMeansAndMixturesThatMadeTheCounts) {
  for (const auto& given : {parameters(8 | 16 | 128, 14, 60), parameters(3 | 16 | 128, 12, 90),
                            parameters(14 | 128, 12, mixture(8, 40, 24)),
                            parameters(9 | 128, 14, mixture(12, 36, 50))}) {
    const auto weights = weights_of(given, 16);
    const std::vector<std::uint32_t> counts(weights.begin(), weights.end());
    const auto plain = fit_gennorm(counts, {0, (given.shape & 16) != 0});
    ASSERT_TRUE(plain);
    const auto fit = fit_gennorm_more(counts, *plain);
    ASSERT_TRUE(fit);
    EXPECT_EQ(fit->shape >> 4, given.shape >> 4);
    const double n = 1 << 20;
    EXPECT_LT(cost(counts, weights_of(*fit, 16)), testing::entropy_bits(counts) + n * 0.004);
    EXPECT_GT(cost(counts, weights_of(*plain, 16)), testing::entropy_bits(counts) + n * 0.02);
  }
}

TEST(FitGennormMore, IsNotTriedWhereTwoBytesAreEnough) {
  const auto counts = laplace_counts(8.3, 16);
  EXPECT_FALSE(fit_gennorm_more(counts, *fit_gennorm(counts, {})));
  const std::vector<std::uint32_t> nothing(16, 0);
  EXPECT_FALSE(fit_gennorm_more(nothing, *fit_gennorm(nothing, {})));
}

TEST(FitGennormMore, NeighboursDifferByOneStep) {
  EXPECT_EQ(gennorm_neighbours(parameters(0, 0)).size(), 2u) << "one row and one median";
  EXPECT_EQ(gennorm_neighbours(parameters(5 | 16 | 128, 20, 100)).size(), 6u);
  const auto near = gennorm_neighbours(parameters(5 | 128, 20, mixture(7, 30, 63)));
  EXPECT_EQ(near.size(), 9u) << "no share of 64";
  EXPECT_EQ(near.front().shape, 4u | 128);
  EXPECT_EQ(near.back().more, mixture(7, 30, 62));
}

TEST(FitGennorm, AlphabetsWithoutALayoutHaveNoFit) {
  EXPECT_FALSE(fit_gennorm(std::vector<std::uint32_t>(256, 1), {}));
  EXPECT_FALSE(fit_gennorm(std::vector<std::uint32_t>(2, 1), {}));
  EXPECT_FALSE(fit_gennorm(std::vector<std::uint32_t>(15, 1), {0, true}));
  EXPECT_TRUE(fit_gennorm(std::vector<std::uint32_t>(16, 0), {})) << "no counts: any table will do";
}

TEST(ChooseTable, TakesGennormForFewResiduals) {
  auto counts = laplace_counts(8.3, 16);
  for (auto& count : counts) count = (count + 500) / 1000;  // about a hundred symbols
  const Choice choice = choose_table({counts, {}}, {.fixed = false, .gennorm = true});
  EXPECT_EQ(choice.table.source, Source::gennorm);
  EXPECT_EQ(choice.bits, coded_bits({counts, {}}, choice.table) + 8 * 4);
}

}  // namespace
}  // namespace gradwire::entropy
