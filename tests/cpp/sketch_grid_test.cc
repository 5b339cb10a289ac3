// Floats on a grid of a power of two: exact sums, nothing lost but the rounding, nothing that is
// not finite.

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "error_testing.h"
#include "lossy/sketch/grid.h"
#include "quantise_testing.h"

namespace gradwire::lossy {
namespace {

using Integers = std::vector<std::int32_t>;
using Floats = std::numeric_limits<float>;

IntegerGrid grid_of(const Values& values, std::uint32_t most) {
  const std::optional<IntegerGrid> grid = grid_for(measure_magnitude(values), most);
  EXPECT_TRUE(grid.has_value());
  return grid.value_or(IntegerGrid{});
}

Integers on(const IntegerGrid& grid, const Values& values) {
  Integers integers(values.size());
  EXPECT_TRUE(to_grid(values, grid, integers));
  return integers;
}

Values off(const IntegerGrid& grid, const Integers& integers, std::uint32_t divisor = 1) {
  Values values(integers.size());
  EXPECT_TRUE(from_grid(integers, grid, divisor, values));
  return values;
}

TEST(IntegerGrid, WorkedByHand) {
  const Values values{10, -5, 0.5F, 1.5F, -2.5F, -0.0F, 0.7F};
  const IntegerGrid grid = grid_of(values, 10);
  EXPECT_EQ(grid, (IntegerGrid{.exponent = 0, .largest = 10}));
  EXPECT_EQ(on(grid, values), (Integers{10, -5, 0, 2, -2, 0, 1})) << "ties to even";
  EXPECT_EQ(off(grid, {7, -3}, 2), (Values{3.5F, -1.5F}));
  EXPECT_EQ(grid_of(values, 9), (IntegerGrid{.exponent = 1, .largest = 9}));
  EXPECT_EQ(grid_of(values, 1023).exponent, -6);
}

TEST(IntegerGrid, IsTheFinestThatTheLargestValueFits) {
  for (std::uint64_t k = 0; k < 20000; ++k) {
    const std::uint64_t bits = random_bits(1, k);
    const auto magnitude = static_cast<std::int64_t>(bits % 0x7f800000);
    const std::uint32_t most = static_cast<std::uint32_t>(bits >> 40) >> (bits >> 32) % 24 | 1;
    const IntegerGrid grid = grid_for(magnitude, most).value();
    const double value = double{std::bit_cast<float>(static_cast<std::int32_t>(magnitude))};
    ASSERT_TRUE(grid.exponent == 127 ||
                value <= std::ldexp(static_cast<double>(most), grid.exponent));
    if (grid.exponent > -149) {
      ASSERT_GT(value, std::ldexp(static_cast<double>(most), grid.exponent - 1));
    }
    ASSERT_TRUE(grid.exponent >= -149 && grid.exponent <= 127);
    // Only at the end of floats may the largest integer be less than was asked for.
    if (value < 0x1p126) {
      ASSERT_EQ(grid.largest, static_cast<std::int32_t>(most));
    }
    ASSERT_LE(grid.largest, static_cast<std::int32_t>(most));
  }
}

TEST(IntegerGrid, LosesHalfAStepAtMostAndGivesItsOwnBack) {
  const Values values = some_values(5000, 1);
  for (const std::uint32_t most : {1u, 7u, 1000u, (1u << 21) - 1, kMostOnGrid}) {
    const IntegerGrid grid = grid_of(values, most);
    const Integers integers = on(grid, values);
    const Values back = off(grid, integers);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_LE(std::abs(integers[i]), grid.largest);
      ASSERT_LE(std::fabs(double{back[i]} - double{values[i]}), std::ldexp(0.5, grid.exponent));
    }
    EXPECT_EQ(on(grid, back), integers) << "what it gives back is on the grid";
  }
  const Values coarse{1024, -3, 0.25F};
  EXPECT_EQ(off(grid_of(coarse, 4096), on(grid_of(coarse, 4096), coarse)), coarse);
}

TEST(IntegerGrid, SumsAreThoseOfExactArithmetic) {
  constexpr std::uint32_t kWorld = 64, kMost = (1u << 21) - 1;
  std::vector<Values> ranks;
  std::int64_t magnitude = 0;
  for (std::uint64_t r = 0; r < kWorld; ++r) {
    ranks.push_back(some_values(300, r));
    magnitude = std::max(magnitude, measure_magnitude(ranks.back()));
  }
  const IntegerGrid grid = grid_for(magnitude, kMost).value();
  Integers sums(300);
  std::vector<double> expected(300);  // exact: 27 bits
  for (const Values& values : ranks) {
    const Integers integers = on(grid, values);
    const Values own = off(grid, integers);
    for (std::size_t i = 0; i < 300; ++i) {
      sums[i] += integers[i];
      expected[i] += double{own[i]};
    }
  }
  const Values whole = off(grid, sums), mean = off(grid, sums, kWorld), third = off(grid, sums, 3);
  for (std::size_t i = 0; i < 300; ++i) {
    ASSERT_EQ(whole[i], static_cast<float>(expected[i]));
    ASSERT_EQ(mean[i], static_cast<float>(expected[i] / kWorld));
    ASSERT_EQ(third[i], static_cast<float>(expected[i] / 3));
  }
}

TEST(IntegerGrid, FiniteValuesOfAnySizeGiveFiniteOnes) {
  const Values ends{Floats::max(), -Floats::max(),       0x1p127F,
                    Floats::min(), Floats::denorm_min(), 0};
  for (const std::uint32_t most : {1u, 2u, 127u, 128u, kMostOnGrid}) {
    const IntegerGrid grid = grid_of(ends, most);
    for (const float value : off(grid, on(grid, ends))) EXPECT_TRUE(std::isfinite(value)) << most;
  }
  EXPECT_EQ(off(grid_of(ends, kMostOnGrid), on(grid_of(ends, kMostOnGrid), ends))[0], ends[0]);
  const Values small{Floats::denorm_min(), -0x1p-140F, 0};
  EXPECT_EQ(off(grid_of(small, 1000), on(grid_of(small, 1000), small)), small);
  EXPECT_EQ(on(grid_of(Values(3), 5), Values(3)), Integers(3));
  EXPECT_EQ(measure_magnitude({}), 0);
  EXPECT_EQ(on({.exponent = 0, .largest = 7}, {100, -7.4F}), (Integers{7, -7})) << "clipped";
}

TEST(IntegerGrid, ReportsWhatIsNotFiniteOnAllRanksAlike) {
  for (const float bad : {Floats::infinity(), -Floats::infinity(), Floats::quiet_NaN()}) {
    const Values values{1, bad, 3};
    const std::int64_t agreed = std::max(measure_magnitude(values), measure_magnitude(Values{7}));
    EXPECT_FALSE(grid_for(agreed, 100).has_value());
    Integers integers(3, 99);
    EXPECT_FALSE(to_grid(values, {.exponent = 0, .largest = 100}, integers));
    EXPECT_EQ(integers, Integers(3));
  }
  Values values(2);
  const IntegerGrid grid = grid_of({Floats::max()}, 1 << 20);
  EXPECT_FALSE(from_grid(Integers{grid.largest * 2, -grid.largest * 2}, grid, 1, values));
  EXPECT_EQ(values, (Values{Floats::max(), -Floats::max()}));
  EXPECT_TRUE(from_grid(Integers{grid.largest * 2, 0}, grid, 2, values)) << "a mean is finite";
}

TEST(IntegerGrid, RefusesWhatIsNoGrid) {
  EXPECT_EQ(refusal(ErrorKind::invalid_argument, [] { grid_for(1, 0); }),
            "grid: integers up to 0 asked for, 1 to 16777216 are allowed");
  refusal(ErrorKind::invalid_argument, [] { grid_for(1, kMostOnGrid + 1); });
  EXPECT_EQ(refusal(ErrorKind::invalid_argument, [] { grid_for(-1, 1); }),
            "grid: magnitude -1 given, 0 to 2147483647 are allowed");
  const auto message = [](const IntegerGrid& grid) {
    return refusal(ErrorKind::invalid_argument, [&] { on(grid, {1}); });
  };
  EXPECT_EQ(message({.exponent = 0, .largest = 0}),
            "grid: 0 steps of 2^0 given, 1 to 16777216 of 2^-149 or more whose product is a float "
            "are allowed");
  message({.exponent = -150, .largest = 1});
  message({.exponent = 127, .largest = 2});
  message({.exponent = 1 << 30, .largest = 1});
  message({.exponent = 0, .largest = (1 << 24) + 1});
  Integers two(2);
  Values one(1);
  EXPECT_EQ(refusal(ErrorKind::invalid_argument,
                    [&] { EXPECT_TRUE(to_grid(one, IntegerGrid{.largest = 1}, two)); }),
            "grid: 1 values and 2 integers given, as many are needed");
  EXPECT_EQ(
      refusal(ErrorKind::invalid_argument,
              [&] { EXPECT_TRUE(from_grid(Integers(1), IntegerGrid{.largest = 1}, 0, one)); }),
      "grid: divisor 0 given, 1 or more are allowed");
}

}  // namespace
}  // namespace gradwire::lossy
