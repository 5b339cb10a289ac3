// The table of THC: the optimum by other means, the published tables, the normal distribution.

#include <bit>
#include <numeric>
#include <utility>

#include "lossy/thc/normal.h"
#include "thc_testing.h"

namespace gradwire::lossy {
namespace {

double tail(double z) { return std::erfc(z / std::sqrt(2.0)); }

TEST(Normal, AgreesWithTheLibrary) {
  for (double z = -6; z <= 6; z += 0.01) {
    EXPECT_NEAR(normal_probability(z), (tail(-z) - 1) / 2, 1e-15) << z;
    EXPECT_NEAR(normal_density(z) * std::sqrt(2 * M_PI) * std::exp(z * z / 2), 1, 1e-13) << z;
  }
}

TEST(Normal, LimitsAreThePublishedOnes) {
  // THC's files name their tables by 1 / p; t has three digits behind the point.
  const std::pair<double, double> published[] = {{16, 1.863},  {32, 2.154},  {64, 2.418},
                                                 {128, 2.660}, {256, 2.886}, {512, 3.097},
                                                 {1024, 3.297}};
  for (const auto& [inverse, limit] : published)
    EXPECT_NEAR(normal_limit(1 / inverse), limit, 0.0005) << inverse;
  for (double p = 1e-7; p < 1; p *= 1.5) EXPECT_NEAR(tail(normal_limit(p)) / p, 1, 1e-8) << p;
}

/// The table's error by Simpson's rule, from its definition.
double error_by_integration(const Octets& entries, unsigned top, double limit) {
  const auto at = [&](unsigned j) { return (2.0 * entries[j] / top - 1) * limit; };
  double error = 0;
  for (unsigned j = 0; j + 1 < entries.size(); ++j) {
    const double a = at(j), b = at(j + 1);
    constexpr int kParts = 400;
    for (int k = 0; k <= kParts; ++k) {
      const double z = a + (b - a) * k / kParts;
      const double weight = k == 0 || k == kParts ? 1 : k % 2 == 1 ? 4 : 2;
      error += weight * (b - a) / kParts / 3 * (z - a) * (b - z) * normal_density(z);
    }
  }
  return error;
}

TEST(Table, ErrorsAreTheIntegrals) {
  for (const unsigned bits : {1u, 2u, 4u, 6u}) {
    const Table table = optimal_table({.bits = bits, .top = 100, .clipped = 0.01});
    EXPECT_NEAR(rounding_error(table.entries, table.top, table.limit) /
                    error_by_integration(table.entries, table.top, table.limit),
                1, 1e-8);
  }
  for (const double limit : {0.7, 2.0, 3.3}) {
    double outside = 0;
    constexpr double kStep = 1e-4;
    for (double z = limit + kStep / 2; z < 9; z += kStep)
      outside += 2 * kStep * (z - limit) * (z - limit) * std::exp(-z * z / 2) / std::sqrt(2 * M_PI);
    EXPECT_NEAR(clipping_error(limit) / outside, 1, 1e-4);
  }
}

struct Published {
  TableOptions options;
  Octets entries;
};

TEST(Table, PublishedTablesAreNotBetterAndInFactTheSame) {
  const Published published[] = {
      {{.bits = 4, .top = 30, .clipped = 1.0 / 32},
       {0, 3, 5, 7, 9, 11, 13, 14, 16, 17, 19, 21, 23, 25, 27, 30}},
      {{.bits = 4, .top = 30, .clipped = 1.0 / 512},
       {0, 4, 7, 9, 11, 12, 13, 14, 16, 17, 18, 19, 21, 23, 26, 30}},
      {{.bits = 3, .top = 34, .clipped = 1.0 / 32}, {0, 6, 11, 15, 19, 23, 28, 34}}};
  for (const Published& each : published) {
    const Table table = optimal_table(each.options);
    EXPECT_LE(rounding_error(table.entries, table.top, table.limit),
              rounding_error(each.entries, table.top, table.limit));
    EXPECT_EQ(table.entries, each.entries);
  }
}

TEST(Table, WithoutSymmetryIsBetterOrTheSame) {
  for (const double clipped : {1.0 / 32, 1.0 / 512}) {
    TableOptions options{.bits = 4, .top = 30, .clipped = clipped};
    const Table symmetric = optimal_table(options);
    options.symmetric = false;
    const Table free = optimal_table(options);
    EXPECT_LT(rounding_error(free.entries, 30, free.limit),
              rounding_error(symmetric.entries, 30, free.limit));
  }
}

/// The least error of all tables, one after the other.
double least_error(const TableOptions& options, double limit) {
  const unsigned inner = options.top - 1;
  double least = INFINITY;
  for (std::uint32_t mask = 0; mask < 1u << inner; ++mask) {
    if (std::popcount(mask) != (1 << options.bits) - 2) continue;
    Octets entries{0};
    bool symmetric = true;
    for (unsigned i = 0; i < inner; ++i) {
      if ((mask >> i & 1) == 0) continue;
      entries.push_back(static_cast<std::uint8_t>(i + 1));
      symmetric = symmetric && (mask >> (inner - 1 - i) & 1) != 0;
    }
    if (options.symmetric && !symmetric) continue;
    entries.push_back(static_cast<std::uint8_t>(options.top));
    least = std::min(least, rounding_error(entries, options.top, limit));
  }
  return least;
}

TEST(Table, IsTheBestOfAll) {
  for (const bool symmetric : {true, false})
    for (const unsigned bits : {1u, 2u, 3u})
      for (const unsigned top : {7u, 12u, 15u})
        for (const double clipped : {0.001, 0.05, 0.4}) {
          const TableOptions options{bits, top, clipped, symmetric};
          const Table table = optimal_table(options);
          ASSERT_EQ(table.entries.size(), 1u << bits);
          EXPECT_EQ(std::ranges::adjacent_find(table.entries, std::ranges::greater_equal{}),
                    table.entries.end());
          EXPECT_EQ(table.entries.front(), 0);
          EXPECT_EQ(table.entries.back(), top);
          EXPECT_NEAR(rounding_error(table.entries, top, table.limit),
                      least_error(options, table.limit), 1e-14);
        }
}

TEST(Table, IsSymmetricForEveryTop) {
  for (const unsigned bits : {1u, 4u, 7u}) {
    for (unsigned top = (1u << bits) - 1; top <= 255; top += 3) {
      const Table table = optimal_table({.bits = bits, .top = top});
      for (std::size_t j = 0; j < table.entries.size(); ++j) {
        EXPECT_EQ(table.entries[j] + table.entries[table.entries.size() - 1 - j], top);
        EXPECT_TRUE(j == 0 || table.entries[j - 1] < table.entries[j]);
      }
    }
  }
}

TEST(Table, OfTheLeastTopHasEqualSteps) {
  for (unsigned bits = 1; bits <= 8; ++bits) {
    Octets steps(std::size_t{1} << bits);
    std::iota(steps.begin(), steps.end(), std::uint8_t{0});
    EXPECT_EQ(optimal_table({.bits = bits, .top = (1u << bits) - 1}).entries, steps);
  }
}

TEST(Table, RefusesOtherOptions) {
  const std::pair<TableOptions, const char*> refused[] = {
      {{.bits = 0}, "bits: 0 given"},
      {{.bits = 9, .top = 255}, "bits: 9 given"},
      {{.bits = 4, .top = 14}, "top: 14 given, 15 to 255"},
      {{.bits = 4, .top = 256}, "top: 256 given"},
      {{.clipped = 0}, "clipped: 0 given"},
      {{.clipped = 0.6}, "clipped: 0.6 given"},
      {{.clipped = NAN}, "clipped: nan given"}};
  for (const auto& [options, expected] : refused) {
    const std::string message =
        refusal(ErrorKind::invalid_argument, [&] { TableQuantiser{options}; });
    EXPECT_NE(message.find(expected), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace gradwire::lossy
