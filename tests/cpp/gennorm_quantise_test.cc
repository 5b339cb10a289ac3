// Quantisation to generalised normal levels and few-bit floats: by hand, against the definition,
// against the error that the distribution promises; edges and refusals.

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "base/bytes.h"
#include "base/counter_random.h"
#include "base/hash.h"
#include "gennorm_testing.h"

namespace gradwire::lossy {
namespace {

using enum Grid;
using Octets = std::vector<std::uint8_t>;
constexpr float kHuge = std::numeric_limits<float>::max();
constexpr float kTiny = std::numeric_limits<float>::denorm_min();

TEST(GennormQuantise, WorkedByHand) {
  // Root mean square 1, in buckets of 2 it is 1 and 2; levels -1, -0.5, 0, 0.5, 1 of that.
  const GennormOptions options{.grid = uniform, .levels = 5, .step = 0.5F, .bucket_values = 2};
  const GennormSymbols out = quantised({1, -1, 2, 0, -0.0F}, options);
  EXPECT_EQ(out.symbols, (Octets{4, 0, 4, 2, 2}));
  EXPECT_EQ(out.scales, (Values{1, 2, 0}));
  EXPECT_EQ(out.model.zeros, 26214) << "two of five";
  EXPECT_EQ(restored(out, options), (Values{1, -1, 2, 0, 0}));
}

TEST(GennormQuantise, ZerosOfEitherSignAreZeroOrTheLeastPositiveLevel) {
  const Values values{0.0F, -0.0F, 1, -1, kTiny, -kTiny};
  EXPECT_EQ(quantised(values, {.grid = uniform, .levels = 3, .step = 1}).symbols,
            (Octets{1, 1, 2, 0, 1, 1}));
  EXPECT_EQ(quantised(values, {.grid = uniform, .levels = 4, .step = 1}).symbols,
            (Octets{2, 2, 3, 0, 2, 1}));
}

/// Symbols by definition: the nearest level, and of two the larger magnitude, or the even symbol's
/// distance from zero for floats.
Octets nearest_symbols(const Values& values, float scale, const Levels& levels, bool even) {
  Octets symbols;
  const auto zero = static_cast<int>(levels.size() / 2);
  for (const float value : values) {
    const auto distance = [&](std::size_t i) {
      return std::abs(double{value} / double{scale} - double{levels[i]});
    };
    std::size_t best = 0;
    for (std::size_t i = 1; i < levels.size(); ++i) {
      const bool is_tie = distance(i) == distance(best);
      const bool wins_tie = even ? std::abs(static_cast<int>(i) - zero) % 2 == 0
                                 : std::abs(levels[i]) > std::abs(levels[best]);
      if (distance(i) < distance(best) || (is_tie && wins_tie)) best = i;
    }
    symbols.push_back(static_cast<std::uint8_t>(best));
  }
  return symbols;
}

TEST(GennormQuantise, TakesTheNearestLevel) {
  const Values values = gennorm_values(0.6, 1e-3, 1000);
  for (const Case& each : all_cases()) {
    SCOPED_TRACE(each.name);
    GennormOptions options = each.options;
    options.bucket_values = 0;
    const GennormSymbols out = quantised(values, options);
    const Levels levels = *levels_of(options, out.model.level_row);
    EXPECT_EQ(out.symbols,
              nearest_symbols(values, out.scales[0], levels, options.grid == float_bits));
  }
}

TEST(GennormFloats, OfTwoNumbersAsNearTakeTheEven) {
  for (const Case& each : all_cases()) {
    if (each.options.grid != float_bits) continue;
    SCOPED_TRACE(each.name);
    GennormOptions options = each.options;
    options.bucket_values = 0;
    options.bias = FloatBias::largest;
    const Levels levels = float_levels(options.exponent_bits, options.fraction_bits);
    Values values{levels.back() * 0x1p-9F};
    for (std::size_t i = levels.size() / 2; i + 1 < levels.size(); ++i) {
      const float middle = (levels[i] / 2 + levels[i + 1] / 2) * 0x1p-9F;
      for (const float near : {std::nextafterf(middle, 0), middle, std::nextafterf(middle, kHuge)})
        values.insert(values.end(), {near, -near});
    }
    const GennormSymbols out = quantised(values, options);
    ASSERT_EQ(out.scales[0], 0x1p-9F);
    EXPECT_EQ(out.symbols, nearest_symbols(values, 0x1p-9F, levels, true));
  }
}

TEST(GennormQuantise, ErrsAsMuchAsTheDistributionPromises) {
  for (const double beta : {0.7, 1.0, 2.0}) {
    const Values values = gennorm_values(beta, 1e-4, 200000);
    for (const GennormOptions& options :
         {GennormOptions{.levels = 15}, GennormOptions{.levels = 64},
          GennormOptions{.levels = 15, .weight_power = 2},
          GennormOptions{.grid = uniform, .levels = 65, .step = 0.5F}}) {
      const GennormSymbols out = quantised(values, options);
      const double expected = expected_error(*levels_of(options, out.model.level_row), beta);
      const double found = relative_error(values, restored(out, options));
      EXPECT_NEAR(found / expected, 1, 0.06) << beta << " " << options.levels;
    }
  }
}

TEST(GennormQuantise, LevelsOfTheFitErrLessThanThoseOfOtherShapes) {
  const Values values = gennorm_values(0.6, 1, 100000);
  GennormSymbols out = quantised(values, {.levels = 15});
  const double fitted = relative_error(values, restored(out, {.levels = 15}));
  const double normal = expected_error(*lloyd_levels(64, 15, 0), 0.6);
  EXPECT_LT(fitted, 0.5 * normal);
}

TEST(GennormFloats, DecodeToExactMultiplesOfAPowerOfTwoAndKeepTheirNumbers) {
  for (const Case& each : all_cases()) {
    if (each.options.grid != float_bits) continue;
    SCOPED_TRACE(each.name);
    GennormOptions options = each.options;
    options.bucket_values = 0;
    options.bias = FloatBias::largest;
    Values values = float_levels(options.exponent_bits, options.fraction_bits);
    for (float& value : values) value *= 0x1p-9F;
    const GennormSymbols out = quantised(values, options);
    EXPECT_EQ(out.scales, Values{0x1p-9F});
    Octets all(values.size());
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(out.symbols, all);
    EXPECT_EQ(restored(out, options), values);
  }
}

TEST(GennormFloats, TheLargestIsNotClippedAndTheLeastErrorIsNoLarger) {
  for (const double beta : {0.4, 1.0, 2.0})
    for (unsigned exponent_bits = 1; exponent_bits <= 4; ++exponent_bits) {
      const Values values = gennorm_values(beta, 3, 5000);
      GennormOptions options{.grid = float_bits,
                             .exponent_bits = exponent_bits,
                             .fraction_bits = 1,
                             .bias = FloatBias::largest};
      const GennormSymbols covered = quantised(values, options);
      const double most = double{levels_of(options, 0)->back()} * double{covered.scales[0]};
      float largest = 0;
      for (const float value : values) largest = std::max(largest, std::abs(value));
      EXPECT_GE(most, double{largest});
      EXPECT_LT(most, 2 * double{largest}) << "the next smaller unit would clip";
      const double error = relative_error(values, restored(covered, options));
      options.bias = FloatBias::least_error;
      const GennormSymbols fitted = quantised(values, options);
      EXPECT_LE(relative_error(values, restored(fitted, options)), error);
      EXPECT_LE(fitted.scales[0], covered.scales[0]);
    }
}

TEST(GennormFloats, NormalNumbersErrByHalfAUnitAtMost) {
  const GennormOptions options{
      .grid = float_bits, .exponent_bits = 4, .fraction_bits = 3, .bias = FloatBias::largest};
  const Values values = gennorm_values(1, 1, 10000);
  const GennormSymbols out = quantised(values, options);
  const Values back = restored(out, options);
  const float least_normal = 8 * out.scales[0];
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float off = std::abs(back[i] - values[i]);
    EXPECT_LE(off, std::max(std::abs(values[i]) / 16, least_normal / 16));
  }
}

TEST(GennormQuantise, GivesTheSameOnEveryComputer) {
  constexpr std::uint64_t kExpected[] = {0x3f2e1dbea59057f3, 0x75a1ad06eb442790, 0x784825230f8b98c8,
                                         0x825557b4450a739b, 0xfd95ad8426566e4e, 0x2c514c0aa5516457,
                                         0x89b60188a77ab282, 0x41430bf1f8c66cf9, 0x3fd3e74c45b22089,
                                         0x4c195e4db381cd0b, 0xee5bda3d657eafa9};
  std::vector<std::uint64_t> hashes;
  for (const Case& each : all_cases()) {
    Values values(3000);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto draw = static_cast<std::int64_t>(splitmix(i)) >> 40;
      const float unit = static_cast<float>(draw) * 0x1p-23F;
      values[i] = unit * unit * unit;
    }
    const GennormSymbols out = quantised(values, each.options);
    Bytes bytes(out.symbols);
    ByteWriter writer(bytes);
    writer.u32(out.model.level_row);
    for (const float scale : out.scales) writer.u32(std::bit_cast<std::uint32_t>(scale));
    for (const float value : restored(out, each.options))
      writer.u32(std::bit_cast<std::uint32_t>(value));
    hashes.push_back(hash64(bytes));
  }
  EXPECT_TRUE(std::ranges::equal(hashes, kExpected)) << ::testing::PrintToString(hashes);
}

TEST(GennormQuantise, ReportsNanAndInfinity) {
  for (const Case& each : all_cases())
    for (const float bad : {NAN, -NAN, INFINITY, -INFINITY})
      for (const std::size_t at : {0u, 70u, 99u}) {
        SCOPED_TRACE(each.name);
        Values values = gennorm_values(1, 1, 100);
        GennormSymbols out = quantised(values, each.options);
        values[at] = bad;
        EXPECT_FALSE(quantise(values, each.options, out));
        EXPECT_EQ(out.symbols.size() + out.scales.size(), 0u);
      }
}

TEST(GennormQuantise, TakesNothingZerosOneValueAndConstants) {
  for (const Case& each : all_cases()) {
    SCOPED_TRACE(each.name);
    EXPECT_TRUE(restored(quantised({}, each.options), each.options).empty());
    for (const std::size_t n : {1u, 64u, 129u})
      EXPECT_EQ(restored(quantised(Values(n), each.options), each.options), Values(n));
    for (const float value : {-3.0F, 1e-30F, kTiny, kHuge})
      for (const std::size_t n : {1u, 130u}) {
        const Values values(n, value);
        const Values back = restored(quantised(values, each.options), each.options);
        EXPECT_EQ(back, Values(n, back[0]));
        EXPECT_TRUE(std::isfinite(back[0]));
        if (value == kTiny) continue;
        EXPECT_NEAR(back[0] / value, 1, 0.5) << value;  // uniform 4: between 0.5 and 1.5
      }
  }
}

TEST(GennormQuantise, KeepsExtremesFinite) {
  for (const Case& each : all_cases()) {
    SCOPED_TRACE(each.name);
    const Values values{kHuge, -kHuge, 1, kTiny, 0, -kTiny, kHuge / 3};
    for (const float value : restored(quantised(values, each.options), each.options))
      EXPECT_TRUE(std::isfinite(value));
  }
}

TEST(GennormQuantise, RefusesOptionsOutOfRange) {
  for (const GennormOptions& options :
       {GennormOptions{.levels = 1}, GennormOptions{.levels = 256},
        GennormOptions{.weight_power = 9}, GennormOptions{.grid = uniform, .step = 0},
        GennormOptions{.grid = uniform, .step = NAN},
        GennormOptions{.grid = float_bits, .exponent_bits = 0},
        GennormOptions{.grid = float_bits, .exponent_bits = 8, .fraction_bits = 0},
        GennormOptions{.grid = float_bits, .exponent_bits = 5, .fraction_bits = 3},
        GennormOptions{.grid = static_cast<Grid>(3)}})
    refusal(ErrorKind::invalid_argument, [&] { (void)quantised({1}, options); });
}

TEST(GennormDequantise, RefusesWhatNoRankSends) {
  const GennormOptions options{.levels = 7, .bucket_values = 2};
  const auto expect_corrupt = [&](const auto& damage) {
    GennormSymbols out = quantised({1, 2, 3}, options);
    damage(out);
    return refusal(ErrorKind::corrupt, [&] { (void)restored(out, options); });
  };
  EXPECT_EQ(expect_corrupt([](GennormSymbols& out) { out.symbols[2] = 7; }),
            "gennorm: symbol 7 found, the largest allowed is 6");
  expect_corrupt([](GennormSymbols& out) { out.scales.pop_back(); });
  expect_corrupt([](GennormSymbols& out) { out.scales[1] = -1; });
  expect_corrupt([](GennormSymbols& out) { out.scales[1] = INFINITY; });
  expect_corrupt([](GennormSymbols& out) { out.model.level_row = 97; });
  expect_corrupt([](GennormSymbols& out) { out.model.code_row = 97; });
  expect_corrupt([](GennormSymbols& out) { out.model.spread = 0; });
  expect_corrupt([](GennormSymbols& out) { out.symbols.clear(); });
}

}  // namespace
}  // namespace gradwire::lossy
