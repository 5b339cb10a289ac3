#include "lossy/select/select.h"

#include <limits>

#include <gtest/gtest.h>

#include "gradwire/error.h"
#include "lossy/select/gather.h"
#include "select_testing.h"

namespace gradwire::lossy {
namespace {

using List = std::vector<std::uint32_t>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

SelectOptions options(Selector selector, std::size_t count) {
  SelectOptions made;
  made.selector = selector;
  made.count = count;
  return made;
}

List all_below(std::size_t n) {
  List list(n);
  std::iota(list.begin(), list.end(), 0U);
  return list;
}

void expect_ascending(const List& list, std::size_t n) {
  ASSERT_TRUE(std::is_sorted(list.begin(), list.end(), std::less_equal<>()));
  ASSERT_TRUE(list.empty() || list.back() < n);
}

/// True when no value that was left out is larger than one that was taken.
bool is_top(const std::vector<float>& values, const List& list) {
  return list == naive_top_k(values, list.size());
}

TEST(Select, TopKTakesTheLargestMagnitudes) {
  const std::vector<float> values = {0.5F, -3, 0, 2, -0.0F, 1};
  EXPECT_EQ(selected(values, options(Selector::top_k, 3)), (List{1, 3, 5}));
}

TEST(Select, TiesGoToTheLowerIndex) {
  const std::vector<float> values = {1, -2, 2, 1, -1, 2, 1};
  EXPECT_EQ(selected(values, options(Selector::top_k, 2)), (List{1, 2}));
  EXPECT_EQ(selected(values, options(Selector::top_k, 5)), (List{0, 1, 2, 3, 5}));
}

TEST(Select, TopKIsWhatSortingGives) {
  for (const std::uint32_t mask : {0xffffffffU, 0xbf800000U, 0x80000001U}) {
    for (const std::size_t n : {2, 31, 32, 33, 100, 4095, 4096, 4097, 10000}) {
      const auto values = raw_values(n, mask, n);
      for (const std::size_t count : {std::size_t{1}, n / 100, n / 3, n - 1}) {
        ASSERT_EQ(selected(values, options(Selector::top_k, count)), naive_top_k(values, count))
            << n << ", " << count << ", " << mask;
      }
    }
  }
}

TEST(Select, TopKOfManyValuesIsExactWhateverTheSampleSays) {
  auto values = draw(Shape::laplace, 300000);
  for (std::size_t i = 150000; i < 150300; ++i) values[i] = 1;  // no sample knows their number
  for (const std::size_t count : {10, 300, 5000, 200000}) {
    const auto expected = naive_top_k(values, count);
    for (const std::uint64_t seed : {0, 1, 2}) {
      auto given = options(Selector::top_k, count);
      given.seed = seed;
      ASSERT_EQ(selected(values, given), expected) << count;
    }
  }
  std::fill(values.begin(), values.end(), 0.0F);
  values[299999] = 1;  // few pass what the sample says, or all do
  EXPECT_EQ(selected(values, options(Selector::top_k, 3)), (List{0, 1, 299999}));
}

TEST(Select, TopKIsExactWhereTheSampleSawOnlyLargeValues) {
  std::vector<float> values(300000);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::bit_cast<float>(static_cast<std::uint32_t>(i));  // magnitudes are places
  }
  Words places;
  ASSERT_TRUE(sample_magnitudes(values, 200000, 0, places));
  std::fill(values.begin(), values.end(), 1.0F);
  for (const std::uint32_t place : places) values[place] = 2;
  EXPECT_EQ(selected(values, options(Selector::top_k, 200000)), naive_top_k(values, 200000));
}

TEST(Select, ThresholdIsInclusive) {
  const std::vector<float> values = {0.5F, -1, 0.99999F, 1, -2, 0};
  auto given = options(Selector::threshold, 0);
  given.threshold = 1;
  EXPECT_EQ(selected(values, given), (List{1, 3, 4}));
  given.threshold = 1.00000000001;  // no float, so the next one counts
  EXPECT_EQ(selected(values, given), (List{4}));
  given.threshold = 0;
  EXPECT_EQ(selected(values, given), all_below(6));
  given.threshold = 1e300;
  EXPECT_EQ(selected(values, given), List{});
}

TEST(Select, ThresholdIsWhatComparingGives) {
  for (const std::size_t n : {1, 31, 32, 33, 4095, 4097, 20000}) {
    const auto values = draw(Shape::gaussian, n);
    for (const double bound : {0.0, 1e-4, 1e-3, 3e-3, 1.0}) {
      auto given = options(Selector::threshold, 0);
      given.threshold = bound;
      List expected;
      for (std::size_t i = 0; i < n; ++i) {
        if (std::abs(static_cast<double>(values[i])) >= bound) {
          expected.push_back(static_cast<std::uint32_t>(i));
        }
      }
      ASSERT_EQ(selected(values, given), expected) << n << ", " << bound;
    }
  }
}

TEST(Select, BoundsBecomeMagnitudes) {
  EXPECT_EQ(magnitude_from(0), 0U);
  EXPECT_EQ(magnitude_from(-0.0), 0U);
  EXPECT_EQ(magnitude_above(0), 1U);
  EXPECT_EQ(magnitude_from(1e-60), 1U);
  EXPECT_EQ(magnitude_from(1), 0x3f800000U);
  EXPECT_EQ(magnitude_above(1), 0x3f800001U);
  EXPECT_EQ(magnitude_from(std::nextafter(1, 2)), 0x3f800001U);
  EXPECT_EQ(magnitude_above(std::nextafter(1, 2)), 0x3f800001U);
  EXPECT_EQ(magnitude_from(std::nextafter(1, 0)), 0x3f800000U);
  EXPECT_EQ(magnitude_above(std::nextafter(1, 0)), 0x3f800000U);
  EXPECT_EQ(magnitude_above(0x1.fffffep127), kInfinity);
  EXPECT_EQ(magnitude_from(1e300), kInfinity);
  EXPECT_EQ(magnitude_above(std::numeric_limits<double>::infinity()), kInfinity);
}

TEST(Select, EdgesAreTheSameForAllSelectors) {
  for (const Selector selector : kSelectors) {
    if (selector == Selector::threshold) continue;
    const bool is_all = selector == Selector::all;
    EXPECT_EQ(selected({}, options(selector, 0)), List{});
    EXPECT_EQ(selected({}, options(selector, 5)), List{});
    EXPECT_EQ(selected({-2}, options(selector, 1)), List{0});
    EXPECT_EQ(selected({0}, options(selector, 7)), List{0});
    const auto values = draw(Shape::laplace, 5000);
    EXPECT_EQ(selected(values, options(selector, 0)), is_all ? all_below(5000) : List{});
    EXPECT_EQ(selected(values, options(selector, 5000)), all_below(5000));
    EXPECT_EQ(selected(values, options(selector, 9999)), all_below(5000));
  }
}

TEST(Select, EqualValuesAreCountedFromTheFirst) {
  for (const std::size_t n : {100, 5000, 300000}) {
    const std::size_t count = n / 50;
    for (const Selector selector : {Selector::top_k, Selector::sampled_top_k, Selector::sidco}) {
      for (const SidcoModel model :
           {SidcoModel::exponential, SidcoModel::pareto, SidcoModel::gamma}) {
        auto given = options(selector, count);
        given.model = model;
        EXPECT_EQ(selected(std::vector<float>(n, -0.25F), given), all_below(count)) << n;
      }
    }
  }
}

TEST(Select, AllZerosAreCountedFromTheFirstButSidcoSendsNoZeros) {
  const std::vector<float> zeros(5000);
  EXPECT_EQ(selected(zeros, options(Selector::top_k, 50)), all_below(50));
  EXPECT_EQ(selected(zeros, options(Selector::sampled_top_k, 50)), all_below(50));
  EXPECT_EQ(selected(zeros, options(Selector::sidco, 50)), List{});
  auto few = zeros;
  few[77] = few[4999] = 1e-40F;
  EXPECT_EQ(selected(few, options(Selector::sidco, 50)), (List{77, 4999}));
}

TEST(Select, WhatIsNotFiniteIsTheLargest) {
  for (const std::size_t n : {50, 5000, 300000}) {
    auto values = draw(Shape::laplace, n);
    values[7] = kNan;
    values[n / 2] = -kInf;
    values[n - 1] = -kNan;
    const List expected = {7, static_cast<std::uint32_t>(n / 2), static_cast<std::uint32_t>(n - 1)};
    EXPECT_EQ(selected(values, options(Selector::top_k, 3)), expected);
    EXPECT_EQ(selected(values, options(Selector::top_k, 2)), (List{expected[0], expected[2]}));
    for (const Selector selector : {Selector::threshold, Selector::sampled_top_k, Selector::sidco,
                                    Selector::top_k, Selector::all}) {
      auto given = options(selector, std::max(n / 100, std::size_t{4}));
      given.threshold = 0.004;
      const List list = selected(values, given);
      EXPECT_TRUE(std::includes(list.begin(), list.end(), expected.begin(), expected.end()));
    }
  }
}

TEST(Select, MoreThatIsNotFiniteThanIsAskedForIsCut) {
  auto values = draw(Shape::laplace, 300000);
  for (std::size_t i = 0; i < values.size(); i += 10) values[i] = kNan;
  for (const Selector selector : {Selector::top_k, Selector::sampled_top_k, Selector::sidco}) {
    const List list = selected(values, options(selector, 3000));
    EXPECT_EQ(list, naive_top_k(values, 3000));
  }
  std::fill(values.begin(), values.end(), kNan);
  for (const Selector selector : {Selector::top_k, Selector::sampled_top_k, Selector::sidco}) {
    EXPECT_EQ(selected(values, options(selector, 3000)), all_below(3000));
  }
}

TEST(Select, RandomKDoesNotLookAtValues) {
  const std::vector<float> nans(1000, kNan);
  const auto given = options(Selector::random_k, 100);
  EXPECT_EQ(selected(nans, given), selected(draw(Shape::laplace, 1000), given));
}

TEST(Select, SampledTopKStaysInItsBand) {
  for (const Shape shape : {Shape::laplace, Shape::pareto}) {
    const auto values = draw(shape, 300000);
    SidcoState state;
    SelectScratch scratch;
    Indices indices;
    bool differs = false;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      auto given = options(Selector::sampled_top_k, seed % 2 == 0 ? 300 : 3000);
      given.seed = seed;
      select(values, given, state, scratch, indices);
      const auto count = static_cast<double>(given.count);
      ASSERT_GE(static_cast<double>(indices.size()), 0.8 * count) << seed;
      ASSERT_LE(static_cast<double>(indices.size()), 1.3 * count) << seed;
      differs |= indices.size() != given.count;
      ASSERT_TRUE(seed >= 4 || is_top(values, {indices.begin(), indices.end()}));
    }
    EXPECT_TRUE(differs) << "an estimate, not the exact selection";
  }
}

TEST(Select, SampledTopKOfAllIsExact) {
  const auto values = draw(Shape::laplace, 20000);
  auto given = options(Selector::sampled_top_k, 100);
  given.sample_share = 1;
  EXPECT_EQ(selected(values, given), naive_top_k(values, 100));
}

TEST(Select, RandomKHasTheCountAndIsTheSameTwice) {
  for (const std::size_t n : {2, 63, 64, 65, 1000, 100001}) {
    const std::vector<float> values(n);
    for (const std::size_t count : {std::size_t{1}, n / 2, n / 2 + 1, n - 1}) {
      auto given = options(Selector::random_k, count);
      given.seed = n;
      const List list = selected(values, given);
      ASSERT_EQ(list.size(), count);
      expect_ascending(list, n);
      ASSERT_EQ(list, selected(values, given));
      given.seed = n + 1;
      ASSERT_TRUE(n < 1000 || list != selected(values, given));
    }
  }
}

TEST(Select, RandomKIsTheSameOnEveryMachine) {
  // From a second implementation, in Python, of the formulas in the headers.
  const std::vector<float> values(1000);
  auto given = options(Selector::random_k, 8);
  given.seed = 42;
  EXPECT_EQ(selected(values, given), (List{98, 122, 148, 185, 189, 397, 964, 985}));
  given.count = 993;
  const List list = selected(values, given);
  List others;
  const List all = all_below(1000);
  std::set_difference(all.begin(), all.end(), list.begin(), list.end(), std::back_inserter(others));
  EXPECT_EQ(others, (List{98, 148, 185, 189, 397, 964, 985}));
}

/// Pearson's statistic of how often each of n elements is drawn, scaled for draws without
/// replacement: chi-square of n - 1 degrees of freedom.
double chi_square_of_random_k(std::size_t n, std::size_t count, std::size_t draws) {
  const std::vector<float> values(n);
  std::vector<double> seen(n);
  for (std::uint64_t seed = 0; seed < draws; ++seed) {
    auto given = options(Selector::random_k, count);
    given.seed = seed;
    for (const std::uint32_t i : selected(values, given)) ++seen[i];
  }
  const double share = static_cast<double>(count) / static_cast<double>(n);
  const double expected = share * static_cast<double>(draws);
  double sum = 0;
  for (const double times : seen) sum += (times - expected) * (times - expected) / expected;
  return sum / (1 - share) * static_cast<double>(n - 1) / static_cast<double>(n);
}

TEST(Select, RandomKIsUniform) {
  for (const std::size_t count : {1, 8, 32, 33, 60}) {
    const double statistic = chi_square_of_random_k(64, count, 8000);
    EXPECT_LT(statistic, 103.4) << count;  // 0.1 % of chi-square with 63 degrees are above,
    EXPECT_GT(statistic, 32.5) << count;   // and 0.1 % below
  }
}

TEST(Select, NothingIsAllocatedAfterTheFirstCallOfASize) {
  const auto values = draw(Shape::laplace, 200000);
  for (const Selector selector : kSelectors) {
    auto given = options(selector, 2000);
    given.threshold = 0.004;
    SidcoState state;
    SelectScratch scratch;
    Indices indices;
    const auto held = [&] {
      return std::vector<const void*>{indices.data(), scratch.magnitudes.data(),
                                      scratch.marks.data()};
    };
    select(values, given, state, scratch, indices);
    const auto before = held();
    for (int i = 0; i < 4; ++i) {
      select(values, given, state, scratch, indices);
      ASSERT_EQ(held(), before);
    }
  }
}

TEST(Select, KeepBecomesACount) {
  EXPECT_EQ(count_for_keep(0.01, 100), 1U);
  EXPECT_EQ(count_for_keep(0.07, 100), 7U);  // the product is 7.000000000000001
  EXPECT_EQ(count_for_keep(0.001, 10'000'000), 10000U);
  EXPECT_EQ(count_for_keep(0.001, 1001), 2U);
  EXPECT_EQ(count_for_keep(1e-9, 5), 1U);
  EXPECT_EQ(count_for_keep(1, 5), 5U);
  EXPECT_EQ(count_for_keep(0.5, 0), 0U);
  for (const double keep : {0.0, -1.0, 1.1, std::nan("")}) {
    EXPECT_THROW(count_for_keep(keep, 10), Error);
  }
}

void expect_refused(const SelectOptions& given, const std::string& name) {
  try {
    selected({1, 2, 3}, given);
    FAIL() << name;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
  }
}

TEST(Select, OptionsOutOfRangeAreRefusedByName) {
  SelectOptions given = options(Selector::threshold, 1);
  for (const double bad : {-1.0, std::nan("")}) {
    given.threshold = bad;
    expect_refused(given, "threshold");
  }
  given = options(Selector::sampled_top_k, 1);
  for (const double bad : {0.0, 1.5, std::nan("")}) {
    given.sample_share = bad;
    expect_refused(given, "sample_share");
  }
  given = options(Selector::sidco, 1);
  for (const unsigned bad : {0U, 33U}) {
    given.stages = bad;
    expect_refused(given, "stages");
  }
}

TEST(Select, MoreValuesThanIndicesCanNameAreRefused) {
  const float one = 1;
  const std::span<const float> values(&one, std::size_t{1} << 32);  // refused before it is read
  SidcoState state;
  SelectScratch scratch;
  Indices indices;
  try {
    select(values, options(Selector::top_k, 1), state, scratch, indices);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::limit);
  }
}

}  // namespace
}  // namespace gradwire::lossy
