#include <limits>

#include <gtest/gtest.h>

#include "base/portable_math.h"
#include "gradwire/error.h"
#include "lossy/select/sidco.h"
#include "select_testing.h"

namespace gradwire::lossy {
namespace {

constexpr SidcoModel kModels[] = {SidcoModel::exponential, SidcoModel::pareto, SidcoModel::gamma};

std::vector<std::uint32_t> magnitudes_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> magnitudes(values.size());
  std::transform(values.begin(), values.end(), magnitudes.begin(), magnitude);
  return magnitudes;
}

struct Density {
  double mean = 0;         ///< selected / asked over the last 20 steps
  double least = 9;        ///< of these
  double most = 0;         ///< of these
  std::size_t guards = 0;  ///< steps at which exactly the asked number was taken
};

Density density(const std::vector<float>& values, SelectOptions options) {
  constexpr int kSteps = 40;
  constexpr int kLast = 20;
  options.selector = Selector::sidco;
  SidcoState state;
  SelectScratch scratch;
  Indices indices;
  Density result;
  for (int step = 0; step < kSteps; ++step) {
    ++options.seed;
    select(values, options, state, scratch, indices);
    if (step < kSteps - kLast) continue;
    const double found = static_cast<double>(indices.size()) / static_cast<double>(options.count);
    result.mean += found / kLast;
    result.least = std::min(result.least, found);
    result.most = std::max(result.most, found);
    result.guards += indices.size() == options.count;
  }
  return result;
}

TEST(PortableMath, AgreesWithTheLibrary) {
  for (int i = -3000; i <= 3000; ++i) {
    const double x = i * 0.1;
    const double grown = std::exp(x);
    ASSERT_NEAR(exponential(x) / grown, 1, 1e-13) << x;
    ASSERT_NEAR(natural_log(grown), x, 1e-13 * (1 + std::abs(x)));
  }
  for (double x = 0.01; x < 50; x += 0.01) {
    ASSERT_NEAR(natural_log(x), std::log(x), 4e-16 * (1 + std::abs(std::log(x)))) << x;
    ASSERT_NEAR(log_gamma(x), std::lgamma(x), 1e-13 * (1 + std::abs(std::lgamma(x)))) << x;
  }
  EXPECT_EQ(exponential(0), 1);
  EXPECT_EQ(exponential(-1e9), 0);
  EXPECT_EQ(exponential(-std::numeric_limits<double>::infinity()), 0);
  EXPECT_EQ(natural_log(1), 0);
}

TEST(SidcoFit, SumsAreTakenInTheStatedOrder) {
  for (std::size_t n = 0; n < 100; ++n) {
    auto magnitudes = magnitudes_of(raw_values(n, 0x3fffffff, n));
    if (n > 3) magnitudes[n - 2] = kInfinity;
    if (n > 3) magnitudes[n - 3] = kInfinity + 1;
    const std::uint32_t low = n % 2 == 0 ? 1 : 0x3a000000;
    double values[8] = {};
    double squares[8] = {};
    std::size_t count = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (magnitudes[i] < low || magnitudes[i] >= kInfinity) continue;
      const double value = std::bit_cast<float>(magnitudes[i]);
      values[i % 8] += value;
      squares[i % 8] += value * value;
      ++count;
    }
    for (const std::size_t half : {4, 2, 1}) {
      for (std::size_t j = 0; j < half; ++j) values[j] += values[j + half];
      for (std::size_t j = 0; j < half; ++j) squares[j] += squares[j + half];
    }
    const Moments moments = excess_moments(magnitudes, low, 0.25);
    ASSERT_EQ(moments.count, count) << n;
    if (count == 0) continue;
    const double mean = values[0] / static_cast<double>(count);
    ASSERT_EQ(moments.mean, mean - 0.25) << n;
    ASSERT_EQ(moments.variance, squares[0] / static_cast<double>(count) - mean * mean) << n;
  }
}

TEST(SidcoFit, LogarithmsAreSummedForSubnormalsAndLongSpans) {
  auto magnitudes = magnitudes_of(draw(Shape::laplace, 30001));
  magnitudes[0] = 1;
  magnitudes[1] = 0;
  magnitudes[2] = kInfinity;
  magnitudes[30000] = kInfinity + 5;
  double expected = 0;
  for (const std::uint32_t word : magnitudes) {
    if (word > 0 && word < kInfinity) {
      expected += std::log(static_cast<double>(std::bit_cast<float>(word)));
    }
  }
  EXPECT_NEAR(sum_log(magnitudes), expected, 1e-11 * std::abs(expected));
}

TEST(SidcoFit, ModelsGiveTheirOwnQuantilesFromTheirMoments) {
  for (const double p : {0.25, 0.06, 0.004}) {
    const Moments laplace{1000, 2, 4};  // an exponential of mean 2
    EXPECT_NEAR(exponential_threshold(laplace, p), -2 * std::log(p), 1e-12);
    EXPECT_NEAR(pareto_threshold(laplace, p), -2 * std::log(p), 1e-12);
    for (const double tail : {-0.4, 0.1, 0.3}) {  // of scale 1
      const Moments pareto{1000, 1 / (1 - tail), 1 / ((1 - tail) * (1 - tail) * (1 - 2 * tail))};
      EXPECT_NEAR(pareto_threshold(pareto, p), (std::pow(p, -tail) - 1) / tail, 1e-11) << tail;
    }
    constexpr double kMeanLog = -0.57721566490153286 + 0.69314718055994531;
    EXPECT_NEAR(gamma_threshold(laplace, kMeanLog, p) / (-2 * std::log(p)), 1, 0.02);
  }
}

TEST(SidcoFit, FitsThatFailSaySo) {
  const std::vector<std::uint32_t> equal(5000, 0x3f800000);
  EXPECT_FALSE(sidco_threshold(equal, 50, SidcoModel::pareto, 3));
  EXPECT_FALSE(sidco_threshold(equal, 50, SidcoModel::gamma, 3));
  EXPECT_EQ(sidco_threshold({}, 50, SidcoModel::pareto, 3), 1U);
  EXPECT_EQ(sidco_threshold(equal, 5000, SidcoModel::pareto, 3), 1U);
}

TEST(Sidco, DensityIsWithinAFifthOnMadeUpGradients) {
  for (const Shape shape : {Shape::laplace, Shape::gaussian, Shape::gamma, Shape::pareto}) {
    const auto values = draw(shape, 400000);
    for (const double keep : {0.001, 0.01}) {
      SelectOptions options;
      options.count = count_for_keep(keep, values.size());
      for (const SidcoModel model : kModels) {
        options.model = model;
        const Density found = density(values, options);
        const auto name = testing::Message() << static_cast<int>(shape) << ", " << keep << ", "
                                             << static_cast<int>(model);
        EXPECT_NEAR(found.mean, 1, 0.1) << name;
        EXPECT_GE(found.least, 0.8) << name;
        EXPECT_LE(found.most, 1.3) << name;
        EXPECT_TRUE(model != SidcoModel::pareto || found.guards <= 4) << name;
      }
    }
  }
}

TEST(Sidco, DensityIsWithinAFifthOnRealGradients) {
  for (const char* file : {"gpt-fp32-mid", "gpt-bf16amp-mid-r0", "gpt-bf16-mid-r0",
                           "resnet18-bf16-mid-r0", "resnet18-f16-mid", "vgg16-bf16-mid-r0"}) {
    const auto values = sample_values(file);
    ASSERT_GT(values.size(), 100000U) << file;
    for (const double keep : {0.001, 0.01}) {
      SelectOptions options;
      options.count = count_for_keep(keep, values.size());
      const Density found = density(values, options);
      EXPECT_NEAR(found.mean, 1, 0.1) << file;
      EXPECT_GE(found.least, 0.8) << file;
      EXPECT_LE(found.most, 1.2) << file;
    }
  }
}

TEST(Sidco, AlonePublishedStagesReachTheDensityWhereTheModelHolds) {
  SelectOptions options;
  options.bounded = false;
  options.count = 400;
  for (const SidcoModel model : {SidcoModel::exponential, SidcoModel::pareto}) {
    options.model = model;
    EXPECT_NEAR(density(draw(Shape::laplace, 400000), options).mean, 1, 0.2);
  }
  options.model = SidcoModel::exponential;
  options.stages = 1;
  const auto heavy = draw(Shape::pareto, 400000);
  SidcoState state;
  SelectScratch scratch;
  Indices indices;
  options.selector = Selector::sidco;
  select(heavy, options, state, scratch, indices);
  EXPECT_GT(indices.size(), 1200U) << "one exponential cannot model a heavy tail";
  options.bounded = true;
  state = {};
  select(heavy, options, state, scratch, indices);
  EXPECT_EQ(indices.size(), 400U) << "the surplus is cut";
}

TEST(Sidco, OneStageIsEnoughForAQuarterAndMore) {
  const auto values = draw(Shape::laplace, 400000);
  SelectOptions options;
  options.selector = Selector::sidco;
  options.bounded = false;
  for (const std::size_t count : {100000, 200000}) {
    options.count = count;
    const auto found = static_cast<double>(selected(values, options).size());
    EXPECT_NEAR(found / static_cast<double>(count), 1, 0.05) << count;
  }
}

TEST(Sidco, SelectsTheLargestWhateverTheThreshold) {
  const auto values = draw(Shape::gamma, 300000);
  SelectOptions options;
  options.selector = Selector::sidco;
  options.count = 1000;
  const auto list = selected(values, options);
  EXPECT_EQ(list, naive_top_k(values, list.size()));
}

TEST(Sidco, SmallTensorsAreSelectedExactly) {
  const auto values = draw(Shape::laplace, 4095);
  SelectOptions options;
  options.selector = Selector::sidco;
  options.count = 40;
  EXPECT_EQ(selected(values, options), naive_top_k(values, 40));
}

TEST(Sidco, ZerosHaveNoPartInTheFit) {
  auto values = draw(Shape::laplace, 400000);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (random_bits(9, i) % 4 != 0) values[i] = 0;
  }
  SelectOptions options;
  options.count = 400;
  options.bounded = false;
  EXPECT_NEAR(density(values, options).mean, 1, 0.2);
}

TEST(Sidco, ManyEqualValuesAtTheTopAreTakenByCount) {
  // As the weights of layer norms are: no threshold selects some of them.
  auto values = draw(Shape::laplace, 400000);
  for (std::size_t i = 0; i < 1000; ++i) values[i * 400] = 1;
  SelectOptions options;
  options.count = 400;
  const Density found = density(values, options);
  EXPECT_EQ(found.least, 1);
  EXPECT_EQ(found.most, 1);
}

TEST(Sidco, StagesAdaptEveryFiveSteps) {
  SidcoState state;
  state.stages = 3;
  for (int i = 0; i < 4; ++i) adapt(state, 150, 100, 100000, false);
  EXPECT_EQ(state.stages, 3U);
  adapt(state, 150, 100, 100000, false);
  EXPECT_EQ(state.stages, 2U);
  for (int i = 0; i < 10; ++i) adapt(state, 130, 100, 100000, false);
  EXPECT_EQ(state.stages, 1U) << "never none";
  for (int i = 0; i < 5; ++i) adapt(state, 100, 100, 100000, false);
  EXPECT_EQ(state.stages, 1U);
  for (int i = 0; i < 100; ++i) adapt(state, 10, 100, 100000, false);
  EXPECT_EQ(state.stages, 10U) << "ceil(log2(1000))";
  for (int i = 0; i < 5; ++i) adapt(state, 10, 100, 128 * 100, false);
  EXPECT_EQ(state.stages, 7U) << "log2(128)";
  EXPECT_EQ(state.correction, 1);
}

TEST(Sidco, TheAskedNumberIsCorrectedByHalfOfTheMiss) {
  SidcoState state;
  state.stages = 3;
  adapt(state, 225, 100, 100000, true);
  EXPECT_NEAR(state.correction, 1 / 1.5, 1e-15);
  adapt(state, 0, 100, 100000, true);
  EXPECT_NEAR(state.correction, 2 / 1.5, 1e-15) << "a step is believed up to a factor of 4";
  for (int i = 0; i < 20; ++i) adapt(state, 0, 100, 100000, true);
  EXPECT_EQ(state.correction, 8);
}

TEST(Sidco, AStateThatCannotBeIsRefused) {
  const auto values = draw(Shape::laplace, 5000);
  SelectOptions options;
  options.selector = Selector::sidco;
  options.count = 50;
  SelectScratch scratch;
  Indices indices;
  for (SidcoState state : {SidcoState{1000000, 0, 0, 1}, SidcoState{3, 5, 0, 1},
                           SidcoState{3, 0, -1, 1}, SidcoState{3, 0, std::nan(""), 1},
                           SidcoState{3, 0, 0, 0}, SidcoState{3, 0, 0, std::nan("")}}) {
    EXPECT_THROW(select(values, options, state, scratch, indices), Error);
  }
}

TEST(Sidco, StateContinuesWhereItWasSaved) {
  const auto values = draw(Shape::pareto, 200000);
  SelectOptions options;
  options.selector = Selector::sidco;
  options.count = 200;
  SidcoState whole;
  SelectScratch scratch;
  Indices indices;
  SidcoState saved;
  for (int step = 0; step < 12; ++step) {
    options.seed = static_cast<std::uint64_t>(step);
    select(values, options, whole, scratch, indices);
    if (step == 7) saved = whole;
  }
  Indices resumed;
  SelectScratch fresh;
  for (int step = 8; step < 12; ++step) {
    options.seed = static_cast<std::uint64_t>(step);
    select(values, options, saved, fresh, resumed);
  }
  EXPECT_EQ(indices, resumed);
  EXPECT_EQ(saved.correction, whole.correction);
}

}  // namespace
}  // namespace gradwire::lossy
