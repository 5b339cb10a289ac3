// Counts of tensors beyond 2^32 elements, which no test can afford to make.

#include <gtest/gtest.h>

#include "lossless/chunk_encoder.h"

namespace gradwire::lossless {
namespace {

TEST(Histograms, CountsOfSmallTensorsAreLeftAlone) {
  Histograms histograms;
  histograms.single[0] = {5, 0, UINT32_MAX};
  EXPECT_EQ(histograms.shift(), 0u);
  const auto narrowed = narrow(histograms.single[0], histograms.shift());
  EXPECT_EQ(narrowed[0], 5u);
  EXPECT_EQ(narrowed[1], 0u);
  EXPECT_EQ(narrowed[2], UINT32_MAX);
}

TEST(Histograms, ASymbolThatOccursTwoToThe32TimesIsNotForgotten) {
  Histograms histograms;
  histograms.single[0][7] = std::uint64_t{1} << 32;
  histograms.single[0][9] = 1;
  histograms.pairs[3] = std::uint64_t{1} << 31;
  EXPECT_EQ(histograms.shift(), 1u);
  const auto single = narrow(histograms.single[0], 1);
  EXPECT_EQ(single[7], std::uint32_t{1} << 31);
  EXPECT_EQ(single[9], 1u);
  EXPECT_EQ(single[0], 0u);
  EXPECT_EQ(narrow(histograms.pairs, 1)[3], std::uint32_t{1} << 30);
}

TEST(Histograms, CountsOfWorkersAddUpBeyond32Bits) {
  Histograms sum, part;
  part.single[2][1] = UINT32_MAX;
  part.pairs[255] = UINT32_MAX;
  for (int worker = 0; worker < 10; ++worker) sum.add(part);
  EXPECT_EQ(sum.single[2][1], std::uint64_t{10} * UINT32_MAX);
  EXPECT_EQ(sum.pairs[255], std::uint64_t{10} * UINT32_MAX);
  EXPECT_EQ(sum.shift(), 4u);
}

}  // namespace
}  // namespace gradwire::lossless
