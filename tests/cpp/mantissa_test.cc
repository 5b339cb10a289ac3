// The mantissa ladder: by hand, its bound for every exponent, what never happens, refusals.

#include "lossy/mantissa/mantissa.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "base/counter_random.h"
#include "error_testing.h"
#include "gradwire/compress.h"

namespace gradwire::lossy {
namespace {

using testing::refusal;
using Values = std::vector<float>;
constexpr float kHuge = std::numeric_limits<float>::max();
constexpr float kTiny = std::numeric_limits<float>::denorm_min();

Values rounded(const Values& values, const MantissaOptions& options) {
  Values out(values.size(), NAN);
  EXPECT_TRUE(round_mantissas(values, options, out));
  return out;
}

/// Values of both signs and 60 octaves, all fractions.
Values wide_values(std::size_t n) {
  Values values(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto random = static_cast<std::uint32_t>(splitmix(i) >> 32);
    const std::uint32_t exponent = 127 - random_below(1, i, 60);
    values[i] = std::bit_cast<float>((random & 0x807fffff) | exponent << 23);
  }
  values[0] = 1.5F;
  return values;
}

std::vector<MantissaOptions> all_options() {
  return {{},
          {.top_bits = 23, .slope = 0},
          {.top_bits = 23, .top_octaves = 0, .slope = 0.3F, .fewest_bits = 0},
          {.top_bits = 0, .fewest_bits = 0},
          {.top_bits = 7, .slope = 0, .fewest_bits = 0, .kept_octaves = 20},
          {.top_bits = 8, .top_octaves = 255},
          {.top_bits = 12, .top_octaves = 2, .slope = 2.5F, .fewest_bits = 1, .kept_octaves = 1}};
}

TEST(Mantissa, WorkedByHand) {
  // 3 bits in the octave of 1, 2 in that of 1/2, 1 in that of 1/4, nothing from 1/8 down.
  const MantissaOptions options{
      .top_bits = 3, .top_octaves = 0, .slope = 1, .fewest_bits = 0, .kept_octaves = 3};
  EXPECT_EQ(rounded({1 + 1.0F / 16, 1 + 3.0F / 16, -0.8F, 0.8125F, 0.3F, -0.3125F, 0.12F, -0.12F},
                    options),
            (Values{1, 1.25F, -0.75F, 0.75F, 0.25F, -0.25F, 0, 0}));
}

TEST(Mantissa, TheLadderGoesDownInStepsToItsFloorAndItsCut) {
  const MantissaOptions options{
      .top_bits = 9, .top_octaves = 2, .slope = 0.5F, .fewest_bits = 6, .kept_octaves = 12};
  std::vector<int> bits;
  for (unsigned octaves = 0; octaves < 14; ++octaves) bits.push_back(kept_bits(options, octaves));
  EXPECT_EQ(bits, (std::vector<int>{9, 9, 9, 9, 8, 8, 7, 7, 6, 6, 6, 6, -1, -1}));
  EXPECT_EQ(kept_bits({.top_bits = 23, .top_octaves = 0, .slope = 23, .fewest_bits = 0}, 255), 0);
}

TEST(Mantissa, KeepsItsBoundForEveryExponentAndOnlyTheBitsItSays) {
  const Values values = wide_values(60000);
  for (const MantissaOptions& options : all_options()) {
    const Values out = rounded(values, options);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const int bits = kept_bits(options, static_cast<unsigned>(-std::ilogb(values[i])));
      if (bits < 0) {
        ASSERT_EQ(out[i], 0);
        ASSERT_EQ(std::signbit(out[i]), std::signbit(values[i]));
        continue;
      }
      const double off = std::abs(double{out[i]} - double{values[i]});
      const double unit = std::ldexp(1.0, std::ilogb(values[i]) - bits);
      ASSERT_LE(off, unit / 2) << values[i];
      ASSERT_LE(off, std::ldexp(std::abs(double{values[i]}), -bits - 1));
      ASSERT_EQ(std::remainder(double{out[i]}, unit), 0);
      if (off == unit / 2 && bits > 0) {
        ASSERT_EQ(std::remainder(double{out[i]}, 2 * unit), 0) << "ties to even";
      }
    }
  }
}

TEST(Mantissa, KeepsWhatItRoundedOnce) {
  Values values = wide_values(20000);
  std::erase_if(values, [](float value) { return std::abs(value) >= 1.9F; });  // no new octave
  for (const MantissaOptions& options : all_options()) {
    if (options.kept_octaves != 0 || options.top_bits == 0) continue;
    const Values once = rounded(values, options);
    EXPECT_EQ(rounded(once, options), once);
  }
  const MantissaOptions all{.top_bits = 23, .slope = 0};
  EXPECT_EQ(rounded(values, all), values);
}

TEST(Mantissa, NeverMakesAnInfinity) {
  for (const MantissaOptions& options : all_options()) {
    const Values out = rounded({kHuge, -kHuge, 1}, options);
    EXPECT_TRUE(std::isfinite(out[0]));
    EXPECT_EQ(out[1], -out[0]);
    EXPECT_GE(out[0], std::ldexp(1.0F, 127));
    EXPECT_LE(kHuge - out[0], std::ldexp(kHuge, -static_cast<int>(options.top_bits)));
  }
}

TEST(Mantissa, TakesNothingZerosSubnormalsOneValueAndConstants) {
  for (const MantissaOptions& options : all_options()) {
    EXPECT_TRUE(rounded({}, options).empty());
    const Values zeros = rounded({0.0F, -0.0F}, options);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(zeros[0]), 0u);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(zeros[1]), 0x80000000u);
    const Values small{kTiny, -kTiny, 0x1.7p-127F};
    EXPECT_EQ(rounded(small, options), small);
    EXPECT_EQ(rounded({-0.75F, -0.75F}, options),
              Values(2, options.top_bits == 0 ? -0.5F : -0.75F));
  }
  EXPECT_EQ(rounded({1, kTiny}, {.kept_octaves = 100}), (Values{1, 0}));
}

TEST(Mantissa, ReportsNanAndInfinityAndWritesNothing) {
  for (const float bad : {NAN, -NAN, INFINITY, -INFINITY}) {
    Values out{7, 7};
    EXPECT_FALSE(round_mantissas(Values{1, bad}, {}, out));
    EXPECT_EQ(out, (Values{7, 7}));
  }
}

TEST(Mantissa, WorksInPlace) {
  Values values = wide_values(1000);
  const Values expected = rounded(values, {});
  EXPECT_TRUE(round_mantissas(values, {}, values));
  EXPECT_EQ(values, expected);
}

TEST(Mantissa, RefusesOptionsOutOfRange) {
  for (const MantissaOptions& options :
       {MantissaOptions{.top_bits = 24}, MantissaOptions{.top_octaves = 256},
        MantissaOptions{.slope = -1}, MantissaOptions{.slope = NAN}, MantissaOptions{.slope = 24},
        MantissaOptions{.top_bits = 2, .fewest_bits = 3}, MantissaOptions{.kept_octaves = 256}})
    refusal(ErrorKind::invalid_argument, [&] { (void)rounded({1}, options); });
  Values out(2);
  refusal(ErrorKind::invalid_argument, [&] { (void)round_mantissas(Values{1}, {}, out); });
}

TEST(Mantissa, LeavesTheCodecLittleMoreThanTheBitsKept) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  Values values(1 << 16);
  std::ranges::generate(values, [&] { return 1e-3F * normal(random); });
  const auto size_fraction = [](const Values& given) {
    const std::uint64_t shape[] = {given.size()};
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(given.data());
    const std::size_t size = given.size() * sizeof(float);
    return static_cast<double>(compress({DType::f32, shape, {bytes, size}}).size()) /
           static_cast<double>(size);
  };
  EXPECT_GT(size_fraction(values), 0.75);
  EXPECT_LT(size_fraction(rounded(values, {})), 0.36);
}

}  // namespace
}  // namespace gradwire::lossy
