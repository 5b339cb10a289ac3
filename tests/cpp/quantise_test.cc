// Quantisers: exact where they are exact, sums of symbols, edges, refusals. Their errors are the
// matter of quantise_error_test.cc.

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "base/half.h"
#include "base/hash.h"
#include "quantise_testing.h"

namespace gradwire::lossy {
namespace {

using Numbers = std::vector<std::uint32_t>;

TEST(Quantise, WorkedByHand) {
  const QuantiseOptions options{.levels = 2, .bucket_values = 3, .rounding = Rounding::nearest};
  const Quantised out = quantised({4, -2, 0.5F, -8}, options);  // a bucket of 3, one of 1
  EXPECT_EQ(symbols_of(out), (Numbers{4, 1, 2, 0}));
  EXPECT_EQ(out.scales, (Values{4, 8}));
  EXPECT_EQ(restored(out, options), (Values{4, -2, 0, -8}));
}

/// Hashes of symbols, scales and restored values, in the order of all_cases.
constexpr std::uint64_t kExpected[] = {
    0x516d516d635160ae, 0x7d5289785249b1be, 0x9db3dc5652b31772, 0xcfb08a1cd22bf327,
    0x944d84d549f4712f, 0x2a7405e864950e70, 0x503a2693f79c895e, 0x1150b7b41fd3d01f,
    0x8271d7ccf20115f4, 0x8bbdf45585c188c7, 0xf7c571af0eebd75b, 0xbe45aee165bdbded,
    0xd0765c1897eb41e9, 0x636f3e233ba7c0a7, 0xbfd4483bb835415b, 0xba4508247757b19a};

TEST(Quantise, GivesTheSameOnEveryComputer) {
  const Values values = some_values(1000, 1);
  const std::vector<Case> cases = all_cases();
  ASSERT_EQ(cases.size(), std::size(kExpected));
  for (std::size_t k = 0; k < cases.size(); ++k) {
    const QuantiseOptions& options = cases[k].options;
    const Quantised out = quantised(values, options, {.seed = 5, .first = 0});
    Bytes bytes;
    ByteWriter writer(bytes);
    for (const std::uint32_t symbol : symbols_of(out)) writer.u32(symbol);
    for (const float scale : out.scales) writer.u32(std::bit_cast<std::uint32_t>(scale));
    for (const float value : restored(out, options))
      writer.u32(std::bit_cast<std::uint32_t>(value));
    EXPECT_EQ(hash64(bytes), kExpected[k]) << cases[k].name;
  }
}

TEST(Quantise, PartsThatStartAtABucketGiveTheSymbolsOfTheWhole) {
  const Values values = some_values(500, 2);
  for (const Case& each : all_cases()) {
    SCOPED_TRACE(each.name);
    if (each.options.bucket_values == 0) continue;
    const std::size_t cut = 3 * each.options.bucket_values % 500;
    // The draws of the first part end 7 values behind a change of their upper half.
    const Draws draws{.seed = 9, .first = (std::uint64_t{1} << 32) - cut + 7};
    Numbers whole = symbols_of(quantised(values, each.options, draws));
    const Values head(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(cut));
    const Values tail(values.begin() + static_cast<std::ptrdiff_t>(cut), values.end());
    Numbers parts = symbols_of(quantised(head, each.options, draws));
    const Numbers rest = symbols_of(quantised(tail, each.options, {draws.seed, draws.first + cut}));
    parts.insert(parts.end(), rest.begin(), rest.end());
    EXPECT_EQ(whole, parts);
  }
}

TEST(Quantise, SymbolsStayBelowTheAlphabetAndReachItsEnds) {
  Values values = some_values(2000, 3);
  values[0] = std::numeric_limits<float>::max();
  values[1] = -values[0];
  for (const Case& each : all_cases()) {
    SCOPED_TRACE(each.name);
    const Quantised out = quantised(values, each.options);
    const Numbers symbols = symbols_of(out);
    const auto [least, most] = std::ranges::minmax(symbols);
    EXPECT_LT(most, alphabet(each.options));
    const unsigned bytes = std::holds_alternative<std::vector<std::uint8_t>>(out.symbols) ? 1 : 2;
    EXPECT_EQ(bytes, traits_of(each.options).symbol_bytes);
    if (traits_of(each.options).additive && each.options.norm != Norm::l2) {
      EXPECT_EQ(least, 0u);
      EXPECT_EQ(most, alphabet(each.options) - 1);
    }
    for (const float value : restored(out, each.options)) EXPECT_TRUE(std::isfinite(value));
  }
}

TEST(Natural, KeepsPowersOfTwoAndZeros) {
  Values values{0.0F, -0.0F};
  for (int exponent = -126; exponent <= 127; ++exponent)
    for (const float sign : {1.0F, -1.0F}) values.push_back(std::ldexp(sign, exponent));
  const Values back = restored(quantised(values, {.kind = natural}), {.kind = natural});
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(std::bit_cast<std::uint32_t>(back[i]), std::bit_cast<std::uint32_t>(values[i]));
}

TEST(Sign, KeepsValuesOfOneMagnitude) {
  const Values values{3, -3, -3, 3, 3};
  for (const Norm norm : {Norm::l1, Norm::l2}) {
    const QuantiseOptions options{.kind = sign, .bucket_values = 2, .norm = norm};
    EXPECT_EQ(restored(quantised(values, options), options), values);
  }
  const QuantiseOptions options{.kind = sign, .norm = Norm::l1};
  EXPECT_EQ(restored(quantised({4, 0, -0.0F}, options), options), Values(3, 4.0F / 3))
      << "both zeros are positive";
}

TEST(Uniform, KeepsItsLevels) {
  for (const Rounding rounding : {Rounding::random, Rounding::nearest}) {
    const QuantiseOptions options{.levels = 64, .bucket_values = 0, .rounding = rounding};
    Values values;
    for (int level = -64; level <= 64; ++level) values.push_back(static_cast<float>(level) / 8);
    EXPECT_EQ(restored(quantised(values, options), options), values);
  }
}

TEST(Ternary, ClipsToRootMeanSquares) {
  const QuantiseOptions options{.kind = ternary, .bucket_values = 0, .clip_deviations = 2};
  Values values(16);
  values[3] = -8;  // the root mean square is 2
  const Quantised out = quantised(values, options);
  EXPECT_EQ(out.scales, Values{4});
  EXPECT_EQ(restored(out, options)[3], -4);
}

/// Whether all finite patterns come back and the others are never made.
void expect_patterns_stay(QuantiserKind kind, std::uint32_t patterns, float largest) {
  const QuantiseOptions options{.kind = kind, .bucket_values = 0};
  Quantised all;
  if (patterns == 256) {
    all.symbols = std::vector<std::uint8_t>(256);
    all.scales = {largest};
  } else {
    all.symbols = std::vector<std::uint16_t>(patterns);
  }
  std::visit([](auto& symbols) { std::iota(symbols.begin(), symbols.end(), 0); }, all.symbols);
  Values finite;
  Numbers expected;
  const Values values = restored(all, options);
  for (std::uint32_t pattern = 0; pattern < patterns; ++pattern)
    if (std::isfinite(values[pattern])) {
      finite.push_back(values[pattern]);
      expected.push_back(pattern);
    }
  EXPECT_EQ(*std::ranges::max_element(finite), largest);
  EXPECT_EQ(symbols_of(quantised(finite, options)), expected);
}

TEST(Casts, KeepAllTheirFiniteValues) {
  expect_patterns_stay(bf16, 65536, 0x1.fep127F);
  expect_patterns_stay(f16, 65536, 65504);
  expect_patterns_stay(e4m3, 256, 448);
  expect_patterns_stay(e5m2, 256, 57344);
}

/// The number of an 8-bit float by definition; NaN for what is not finite.
double octet(unsigned pattern, int fraction_bits, int bias) {
  const int exponent = static_cast<int>(pattern & 0x7f) >> fraction_bits;
  const int fraction = static_cast<int>(pattern) & ((1 << fraction_bits) - 1);
  const bool special = fraction_bits == 3 ? (pattern & 0x7f) == 0x7f : exponent == 31;
  if (special) return NAN;
  const double hidden = exponent == 0 ? 0 : 1 << fraction_bits;
  const double size = std::ldexp(hidden + fraction, std::max(exponent, 1) - bias - fraction_bits);
  return (pattern & 0x80) != 0 ? -size : size;
}

void expect_nearest_octet(QuantiserKind kind, int fraction_bits, int bias, float largest) {
  const QuantiseOptions options{.kind = kind, .bucket_values = 0};
  Values values{largest};
  for (unsigned pattern = 0; pattern < 127; ++pattern) {
    const double value = octet(pattern, fraction_bits, bias);
    const double above = octet(pattern + 1, fraction_bits, bias);
    if (std::isnan(above)) break;
    const auto middle = static_cast<float>((value + above) / 2);
    for (const float near : {std::nextafterf(middle, 0), middle, std::nextafterf(middle, largest)})
      values.insert(values.end(), {near, -near});
  }
  const Numbers symbols = symbols_of(quantised(values, options));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double scaled = double{values[i] / largest * largest};
    unsigned best = values[i] < 0 ? 0x80 : 0;
    for (unsigned pattern = best; pattern < best + 128; ++pattern) {
      const double distance = std::fabs(octet(pattern, fraction_bits, bias) - scaled);
      const double found = std::fabs(octet(best, fraction_bits, bias) - scaled);
      if (distance < found || (distance == found && pattern % 2 == 0)) best = pattern;
    }
    EXPECT_EQ(symbols[i], best) << values[i];
  }
}

TEST(Casts, OfEightBitsTakeTheNearestEven) {
  expect_nearest_octet(e4m3, 3, 7, 448);
  expect_nearest_octet(e5m2, 2, 15, 57344);
}

TEST(Casts, ClipWhatIsTooLarge) {
  const float huge = std::numeric_limits<float>::max();
  EXPECT_EQ(restored(quantised({huge, -huge}, {.kind = f16}), {.kind = f16}),
            (Values{65504, -65504}));
  EXPECT_EQ(restored(quantised({huge, -huge}, {.kind = bf16}), {.kind = bf16}),
            (Values{0x1.fep127F, -0x1.fep127F}));
}

/// Ranks that agree on the largest scale of each bucket.
std::vector<Quantised> from_ranks(const QuantiseOptions& options, unsigned ranks, std::size_t n) {
  Values agreed(scale_count(options, n));
  for (unsigned rank = 0; rank < ranks; ++rank) {
    Values own;
    EXPECT_TRUE(measure_scales(some_values(n, rank), options, own));
    for (std::size_t i = 0; i < own.size(); ++i) agreed[i] = std::max(agreed[i], own[i]);
  }
  std::vector<Quantised> all;
  for (unsigned rank = 0; rank < ranks; ++rank)
    all.push_back(quantised(some_values(n, rank), options, {.seed = rank, .first = 0}, agreed));
  return all;
}

TEST(Add, GivesTheSumOfTheDequantised) {
  for (const Case& each : all_cases()) {
    if (!traits_of(each.options).additive || each.options.levels == 32767) continue;
    SCOPED_TRACE(each.name);
    const std::vector<Quantised> ranks = from_ranks(each.options, 5, 300);
    Quantised sum = ranks[0];
    std::vector<double> expected(300);
    std::vector<double> size(300);
    for (std::size_t rank = 0; rank < 5; ++rank) {
      if (rank > 0) add(sum, ranks[rank], each.options);
      const Values values = restored(ranks[rank], each.options);
      for (std::size_t i = 0; i < 300; ++i) expected[i] += double{values[i]};
      for (std::size_t i = 0; i < 300; ++i) size[i] += std::fabs(double{values[i]});
    }
    EXPECT_EQ(sum.terms, 5u);
    const Values values = restored(sum, each.options);
    // Levels are added exactly; a quotient and a product are rounded, here and in each rank.
    for (std::size_t i = 0; i < 300; ++i)
      EXPECT_NEAR(double{values[i]}, expected[i], 4.01 * 0x1p-24 * size[i]);
    Quantised turned = ranks[4];
    for (const std::size_t rank : {2u, 0u, 3u, 1u}) add(turned, ranks[rank], each.options);
    EXPECT_EQ(symbols_of(turned), symbols_of(sum)) << "in any order";
  }
}

TEST(Add, TakesTwoBytesWhenTheSumNeedsThemAndRefusesMore) {
  const QuantiseOptions options{.bucket_values = 0};
  const Quantised one = quantised({1, -1}, options);
  Quantised sum = one;
  add(sum, one, options);
  EXPECT_EQ(symbols_of(sum), (Numbers{508, 0}));
  EXPECT_EQ(restored(sum, options), (Values{2, -2}));
  Quantised doubled = one;
  add(doubled, sum, options);  // a sum into a part
  EXPECT_EQ(restored(doubled, options), (Values{3, -3}));
  const QuantiseOptions wide{.levels = 32767};
  Quantised full = quantised({1, -1}, wide);
  refusal(ErrorKind::limit, [&] { add(full, Quantised(full), wide); });
}

TEST(Add, RefusesWhatCannotBeSummed) {
  const QuantiseOptions options{.bucket_values = 2};
  Quantised sum = quantised({1, 2, 3}, options);
  const std::string message =
      refusal(ErrorKind::transport, [&] { add(sum, quantised({1, 2, 4}, options), options); });
  EXPECT_EQ(message, "add: scale 1 is 3 here and 4 there; ranks must agree on it");
  refusal(ErrorKind::transport, [&] { add(sum, quantised({1, 2}, options), options); });
  Quantised powers = quantised({1}, {.kind = natural});
  refusal(ErrorKind::invalid_argument, [&] { add(powers, powers, {.kind = natural}); });
}

TEST(Quantise, ReportsNanAndInfinityAlikeForAllKinds) {
  for (const Case& each : all_cases())
    for (const float bad : {NAN, -NAN, INFINITY, -INFINITY})
      for (const std::size_t at : {0u, 70u, 99u}) {
        SCOPED_TRACE(each.name);
        Values values = some_values(100, 4);
        values[at] = bad;
        Quantised out = quantised(some_values(10, 4), each.options);
        EXPECT_FALSE(quantise(values, each.options, {}, out));
        EXPECT_EQ(out.size() + out.scales.size(), 0u);
        Values scales(3);
        EXPECT_FALSE(measure_scales(values, each.options, scales));
        EXPECT_TRUE(scales.empty());
        const Values agreed(scale_count(each.options, 100), 1);
        EXPECT_FALSE(quantise(values, each.options, {}, agreed, out));
      }
}

TEST(Quantise, TakesNothingZerosAndOneValue) {
  for (const Case& each : all_cases()) {
    SCOPED_TRACE(each.name);
    EXPECT_TRUE(restored(quantised({}, each.options), each.options).empty());
    for (const std::size_t n : {1u, 65u, 128u})
      EXPECT_EQ(restored(quantised(Values(n), each.options), each.options), Values(n));
    const float one = restored(quantised({-3}, each.options), each.options)[0];
    EXPECT_TRUE(one == -3 || (each.options.kind == natural && (one == -2 || one == -4))) << one;
    const float tiny = std::numeric_limits<float>::denorm_min();
    for (const float value : restored(quantised({tiny, -tiny, 0}, each.options), each.options))
      EXPECT_LE(std::fabs(value), std::numeric_limits<float>::min());
  }
}

TEST(Quantise, ClipsToAgreedScales) {
  const QuantiseOptions options{.kind = ternary};
  const Quantised out = quantised({5, -5}, options, {}, Values{2});
  EXPECT_EQ(restored(out, options), (Values{2, -2}));
}

TEST(Quantise, RefusesOptionsOutOfRange) {
  for (const QuantiseOptions& options :
       {QuantiseOptions{.levels = 0}, QuantiseOptions{.levels = 32768},
        QuantiseOptions{.norm = Norm::l1}, QuantiseOptions{.kind = sign},
        QuantiseOptions{.kind = ternary, .clip_deviations = 0.5F},
        QuantiseOptions{.kind = ternary, .clip_deviations = NAN},
        QuantiseOptions{.kind = static_cast<QuantiserKind>(8)}})
    refusal(ErrorKind::invalid_argument, [&] { (void)quantised({1}, options); });
}

TEST(Quantise, RefusesScalesThatDoNotFit) {
  const QuantiseOptions options{.bucket_values = 2};
  for (const Values& scales : {Values{1}, Values{1, 1, 1}, Values{1, -1}, Values{NAN, 1}})
    refusal(ErrorKind::invalid_argument, [&] { (void)quantised({1, 2, 3}, options, {}, scales); });
}

TEST(Dequantise, RefusesWhatNoRankSends) {
  const QuantiseOptions uniform7{.levels = 7, .bucket_values = 2};
  const auto expect_corrupt = [](const QuantiseOptions& options, const auto& damage) {
    Quantised out = quantised({1, 2, 3}, options);
    damage(out);
    return refusal(ErrorKind::corrupt, [&] { (void)restored(out, options); });
  };
  using Octets = std::vector<std::uint8_t>;
  using Words = std::vector<std::uint16_t>;
  EXPECT_EQ(expect_corrupt(uniform7, [](Quantised& q) { std::get<Octets>(q.symbols)[2] = 15; }),
            "dequantise: symbol 15 found, the largest allowed is 14");
  expect_corrupt(uniform7, [](Quantised& q) { q.scales[1] = -1; });
  expect_corrupt(uniform7, [](Quantised& q) { q.scales[1] = INFINITY; });
  expect_corrupt(uniform7, [](Quantised& q) { q.scales.pop_back(); });
  expect_corrupt(uniform7, [](Quantised& q) { q.terms = 0; });
  expect_corrupt(uniform7, [](Quantised& q) { q.terms = 0xffffffff; });
  expect_corrupt({.kind = natural}, [](Quantised& q) { std::get<Words>(q.symbols)[0] = 255; });
  expect_corrupt({.kind = natural}, [](Quantised& q) { std::get<Words>(q.symbols)[0] = 512; });
  expect_corrupt({.kind = natural}, [](Quantised& q) { q.terms = 2; });
  expect_corrupt({.kind = bf16}, [](Quantised& q) { q.symbols = Octets(3); });
  Values two(2);
  const Quantised three = quantised({1, 2, 3}, uniform7);
  refusal(ErrorKind::corrupt, [&] { dequantise(three, uniform7, two); });
}

}  // namespace
}  // namespace gradwire::lossy
