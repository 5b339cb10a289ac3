// Laws: fitted to counts, written, read.
#include <gtest/gtest.h>

#include "base/counter_random.h"
#include "stages/delta/law.h"
#include "stages/delta/runs.h"

namespace gradwire::delta {
namespace {

/// Elements of which one in `one_in` changes, by 1 and with a chance of `more` in 10 by one more.
LawCounts counts_of(std::uint32_t elements, std::uint32_t one_in, std::uint32_t more,
                    std::uint64_t seed = 1) {
  LawCounts counts;
  counts.elements = elements;
  for (std::uint64_t i = 0; i < elements; ++i) {
    if (random_below(seed, 2 * i, one_in) != 0) continue;
    std::uint64_t size = 1;
    while (random_below(seed + size, 2 * i + 1, 10) < more) ++size;
    counts.note(size);
  }
  return counts;
}

TEST(DeltaLaw, CountsSayHowManyChangesAreLargerThanEachSize) {
  LawCounts counts;
  for (const std::uint64_t size : {1, 1, 2, 5, 1000}) counts.note(size);
  EXPECT_EQ(counts.above[0], 5u);
  EXPECT_EQ(counts.above[1], 3u);
  EXPECT_EQ(counts.above[2], 2u);
  EXPECT_EQ(counts.above[4], 2u);
  EXPECT_EQ(counts.above[5], 1u);
  EXPECT_EQ(counts.above[kMaxDepth + 1], 1u);
  EXPECT_EQ(counts.sum, 1009u);
  EXPECT_EQ(counts.most, 1000u);
  LawCounts both = counts;
  both.add(counts);
  EXPECT_EQ(both.above[1], 6u);
  EXPECT_EQ(both.sum, 2018u);
}

TEST(DeltaLaw, LawsComeBackFromTheirBits) {
  for (const unsigned depth : {0u, 1u, kMaxDepth}) {
    for (const unsigned rest_bits : {0u, kMaxRestBits, kNoRest}) {
      Law law;
      law.changes = true;
      law.depth = depth;
      for (unsigned j = 0; j <= depth; ++j) law.codes[j] = {(7 * j + 3) % 32, j % 3 == 0};
      law.rest_bits = rest_bits;
      Bytes bytes(kMaxLawBits / 8 + 1 + 8);
      BitWriter out(bytes.data());
      write_law(law, out);
      write_law({}, out);
      BitReader in(ByteSpan(bytes).first(out.finish()));
      EXPECT_EQ(read_law(in), law);
      EXPECT_EQ(read_law(in), Law{});
      EXPECT_TRUE(in.at_exact_end());
    }
  }
}

TEST(DeltaLaw, RunsAreTheShortestForEvenlySpreadFlags) {
  for (const std::uint32_t one_in : {1u, 2u, 3u, 10u, 100u, 3000u}) {
    const Law law = fit_law(counts_of(100000, one_in, 0), false);
    std::vector<std::uint32_t> set;
    for (std::uint32_t i = 0; i < 100000; ++i)
      if (random_below(5, i, one_in) == 0) set.push_back(i);
    const std::uint64_t chosen = run_bits(set, 100000, law.codes[0]);
    for (const bool rare : {true, false})
      for (unsigned low_bits = 0; low_bits < 20; ++low_bits)
        EXPECT_LE(static_cast<double>(chosen),
                  1.005 * static_cast<double>(run_bits(set, 100000, {low_bits, rare})))
            << one_in << ", " << rare << ", " << low_bits;
  }
}

TEST(DeltaLaw, OnlyWhatWasSeenNeedBeToldOfAWholeTensor) {
  EXPECT_FALSE(fit_law({}, false).changes);
  LawCounts none;
  none.elements = 1000;
  EXPECT_FALSE(fit_law(none, false).changes);
  EXPECT_TRUE(fit_law(none, true).changes);
  const LawCounts ones = counts_of(1000, 10, 0);
  EXPECT_EQ(fit_law(ones, false).rest_bits, kNoRest);
  EXPECT_NE(fit_law(ones, true).rest_bits, kNoRest);
}

TEST(DeltaLaw, LargeChangesAreRestsAndSmallOnesAnswers) {
  const Law small = fit_law(counts_of(100000, 3, 2), false);
  EXPECT_GT(small.depth, 1u);
  LawCounts large;
  large.elements = 1000;
  for (std::uint64_t i = 0; i < 1000; ++i) large.note(1 + random_below(1, i, 4000));
  const Law law = fit_law(large, false);
  EXPECT_EQ(law.depth, 0u);
  EXPECT_GE(law.rest_bits, 9u);
  EXPECT_LE(law.rest_bits, 11u);
}

TEST(DeltaLaw, ClassesAreJoinedWhereTheirLawsCostMoreThanTheySave) {
  std::vector<LawCounts> large, small;
  for (std::uint32_t c = 0; c < 16; ++c) {
    large.push_back(counts_of(50000, 2u << c, 1, c));
    small.push_back(counts_of(20, 2u << c, 1, c));
  }
  const LawFit fine = fit_laws(large, false), coarse = fit_laws(small, false);
  EXPECT_EQ(fine.step, 0u);
  ASSERT_EQ(fine.laws.size(), 16u);
  EXPECT_GE(coarse.step, 2u);
  EXPECT_EQ(coarse.laws.size(), 16u >> coarse.step);
  double bits = 0;
  for (std::size_t c = 0; c < 16; ++c) bits += cost(fine.laws[c], large[c]);
  EXPECT_DOUBLE_EQ(fine.bits, bits);
}

}  // namespace
}  // namespace gradwire::delta
