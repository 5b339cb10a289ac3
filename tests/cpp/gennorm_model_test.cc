// Codes of fitted distributions: their weights against probabilities, their cost against the
// symbols' entropy.

#include <algorithm>
#include <limits>
#include <numeric>

#include "gennorm_testing.h"
#include "lossy/gennorm/model.h"
#include "stages/entropy/code_lengths.h"

namespace gradwire::lossy {
namespace {

TEST(GennormModel, WeightsAreTheProbabilitiesOfTheCells) {
  const ValueModel model{.beta = 0.7, .spread = 2, .zeros = 0.25, .minus = 0.375};
  const Gennorm values{0.7, 2 * unit_alpha(0.7)};
  for (const unsigned count : {2u, 7u, 8u}) {
    const Levels levels = uniform_levels(count, 0.5);
    const auto weights = symbol_weights(levels, model);
    for (unsigned i = 0; i < count; ++i) {
      const double from = i == 0 ? -1e9 : 0.5 * double{levels[i - 1] + levels[i]};
      const double to = i + 1 == count ? 1e9 : 0.5 * double{levels[i] + levels[i + 1]};
      const double minus = values.below(std::min(to, 0.0)) - values.below(std::min(from, 0.0));
      const double plus = values.below(std::max(to, 0.0)) - values.below(std::max(from, 0.0));
      const double expected =
          (i == count / 2 ? 0.25 : 0) + 0.75 * 2 * (0.375 * minus + 0.625 * plus);
      // Zero's cell is given whole; its halves differ by the sign.
      const double cell =
          count % 2 == 1 && i == count / 2 ? 0.25 + 0.75 * (minus + plus) : expected;
      EXPECT_NEAR(static_cast<double>(weights[i]) / kModelTotal, cell, 2.0 / kModelTotal)
          << count << " " << i;
    }
  }
}

TEST(GennormModel, NoSymbolIsImpossible) {
  const auto weights = symbol_weights(uniform_levels(255, 10), {.beta = 2});
  EXPECT_EQ(weights.front(), 1u);
  EXPECT_EQ(weights.size(), 255u);
  for (const GennormOptions& options : {GennormOptions{}, GennormOptions{.levels = 2}}) {
    const GennormSymbols out = quantised(Values(100), options);  // all zeros
    for (const std::uint64_t weight :
         symbol_weights(*levels_of(options, out.model.level_row), value_model(out.model)))
      EXPECT_GE(weight, 1u);
  }
}

TEST(GennormModel, EntropyIsRightWhereItIsKnown) {
  EXPECT_NEAR(entropy_bits(Counts{4, 2, 1, 1}), 1.75, 1e-14);
  EXPECT_EQ(entropy_bits(Counts{0, 9}), 0);
  EXPECT_EQ(entropy_bits(Counts{0, 0}), 0);
  EXPECT_NEAR(coded_bits(Counts{4, 2, 1, 1}, Counts{1, 1, 1, 1}), 2, 1e-14);
  EXPECT_NEAR(coded_bits(Counts{4, 2, 1, 1}, Counts{4, 2, 1, 1}), 1.75, 1e-14);
}

struct Costs {
  double entropy;
  double fitted;
  double refined;
  double normal;
};

Costs costs_of(const Values& values, const GennormOptions& options) {
  GennormSymbols out = quantised(values, options);
  const Levels levels = *levels_of(options, out.model.level_row);
  const Counts counts = count_symbols(out.symbols, alphabet(options));
  Costs costs{};
  costs.entropy = entropy_bits(counts);
  ValueModel model = value_model(out.model);
  costs.fitted = coded_bits(counts, symbol_weights(levels, model));
  model.beta = 2;
  costs.normal = coded_bits(counts, symbol_weights(levels, model));
  refine_model(levels, counts, out.model);
  costs.refined = coded_bits(counts, symbol_weights(levels, value_model(out.model)));
  return costs;
}

TEST(GennormModel, CodesItsValuesWithinOnePercentOfTheirEntropyAndANormalModelDoesNot) {
  for (const double beta : {0.5, 0.7, 1.0}) {
    const Values values = gennorm_values(beta, 1e-3, 100000);
    for (const Case& each : all_cases()) {
      // Of heavy weights and wide steps nearly all symbols are zero; only wide grids tell.
      if (each.options.bucket_values != 0 || alphabet(each.options) < 15) continue;
      if (each.options.grid == Grid::float_bits && each.options.exponent_bits == 7) continue;
      SCOPED_TRACE(each.name);
      const Costs costs = costs_of(values, each.options);
      EXPECT_LT(costs.fitted, 1.01 * costs.entropy) << beta;
      EXPECT_LE(costs.refined, costs.fitted) << beta;
      EXPECT_GT(costs.normal, 1.015 * costs.entropy) << beta;
    }
  }
}

TEST(GennormModel, RefinedCodesFitScalesThatDifferZerosAndOneSidedSigns) {
  Values values;
  for (const double alpha : {1e-3, 1e-2}) {
    const Values part = gennorm_values(1, alpha, 50000);
    values.insert(values.end(), part.begin(), part.end());
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % 5 != 0) values[i] = std::abs(values[i]);
    if (i % 3 == 0) values[i] = 0;
  }
  const Costs costs = costs_of(values, {.levels = 31});
  EXPECT_GT(costs.fitted, 1.04 * costs.entropy);
  EXPECT_LT(costs.refined, 1.01 * costs.entropy);
}

TEST(GennormModel, RefiningTakesNoCountsAndCountsOfOneSymbol) {
  const Levels levels = uniform_levels(5, 1);
  GennormModel model;
  refine_model(levels, Counts(5), model);
  EXPECT_EQ(model.code_row, GennormModel{}.code_row);
  refine_model(levels, Counts{0, 0, 100, 0, 0}, model);
  EXPECT_LT(coded_bits(Counts{0, 0, 100, 0, 0}, symbol_weights(levels, value_model(model))), 0.01);
  model = {};
  refine_model(levels, Counts{100, 0, 0, 0, 0}, model);
  EXPECT_LT(coded_bits(Counts{100, 0, 0, 0, 0}, symbol_weights(levels, value_model(model))), 0.5);
}

TEST(GennormModel, RefusesModelsThatNoSenderMakes) {
  for (const GennormModel& model :
       {GennormModel{.level_row = 97}, GennormModel{.code_row = 255}, GennormModel{.spread = 0},
        GennormModel{.spread = -1}, GennormModel{.spread = NAN}, GennormModel{.spread = INFINITY}})
    refusal(ErrorKind::corrupt, [&] { (void)value_model(model); });
  refusal(ErrorKind::corrupt, [] { (void)levels_of({}, 97); });
}

TEST(GennormModel, TakesAllModelsThatAreNotRefused) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  const float huge = std::numeric_limits<float>::max();
  for (const unsigned row : {0u, 64u, 96u})
    for (const bool most : {false, true})
      for (const float spread : {tiny, 1.0F, huge})
        for (const Levels& levels : {float_levels(7, 0), uniform_levels(2, 1e-6)}) {
          GennormModel model;
          model.code_row = static_cast<std::uint8_t>(row);
          model.zeros = most ? 65535 : 0;
          model.minus = most ? 255 : 0;
          model.spread = spread;
          const auto weights = symbol_weights(levels, value_model(model));
          const auto sum = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
          EXPECT_NEAR(static_cast<double>(sum), double{kModelTotal}, 2.0 * 255);
        }
}

TEST(GennormModel, WeightsMakeCompleteCodes) {
  const GennormSymbols out = quantised(gennorm_values(0.7, 1, 10000), {.levels = 255});
  const auto weights =
      symbol_weights(*levels_of({.levels = 255}, out.model.level_row), value_model(out.model));
  const auto lengths = entropy::code_lengths(weights);
  double kraft = 0;
  for (unsigned i = 0; i < 255; ++i) kraft += std::ldexp(1.0, -int{lengths[i]});
  EXPECT_EQ(kraft, 1);
}

}  // namespace
}  // namespace gradwire::lossy
