// The randomised Hadamard transform against its definition, bit for bit, and the blocks that it is
// applied to.

#include "lossy/transform/hadamard.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "base/counter_random.h"
#include "base/hash.h"
#include "error_testing.h"

namespace gradwire::lossy {
namespace {

using testing::refusal;
using Values = std::vector<float>;
using Sizes = std::vector<std::size_t>;

constexpr std::size_t kTensor = std::size_t{1} << 23;

Sizes sizes_of(const PowerBlocks& blocks) {
  Sizes sizes;
  for (std::size_t k = 0; k < blocks.count(); ++k) sizes.push_back(blocks[k].size);
  return sizes;
}

/// Values between -1 and 1, the same on every computer.
Values some_values(std::size_t n, std::uint64_t seed) {
  const RandomKey key(seed, 0);
  Values values(n);
  for (std::size_t i = 0; i < n; ++i)
    values[i] = 2 * random_unit(key, static_cast<std::uint32_t>(i)) - 1;
  return values;
}

std::vector<std::uint32_t> bits_of(const Values& values) {
  std::vector<std::uint32_t> bits(values.size());
  std::ranges::transform(values, bits.begin(),
                         [](float value) { return std::bit_cast<std::uint32_t>(value); });
  return bits;
}

double norm_of(const Values& values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * double{value};
  return std::sqrt(sum);
}

double distance(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = double{a[i]} - double{b[i]};
    sum += difference * difference;
  }
  return std::sqrt(sum);
}

Values rotated(Values values, const PowerBlocks& blocks, std::uint64_t seed) {
  values.resize(blocks.padded());
  rotate(values, blocks, seed);
  return values;
}

// --- blocks --------------------------------------------------------------------

TEST(PowerBlocks, WorkedByHand) {
  EXPECT_EQ(sizes_of(PowerBlocks(5000, 1024)), (Sizes{1024, 1024, 1024, 1024, 512, 256, 128, 8}));
  const PowerBlocks padded(2 * 64 + 32 + 5, 64);  // the rest of 5 gets a block of 8
  EXPECT_EQ(sizes_of(padded), (Sizes{64, 64, 32, 8}));
  EXPECT_EQ(padded[3].begin, 160u);
  EXPECT_EQ(padded[3].values, 5u);
  EXPECT_EQ(padded.padded(), 168u);
  EXPECT_EQ(sizes_of(PowerBlocks(1, 32)), Sizes{1});
  EXPECT_EQ(PowerBlocks(0, 32).count(), 0u);
  EXPECT_EQ(PowerBlocks(0, 32).padded(), 0u);
}

TEST(PowerBlocks, CoverEveryValueOnceWithAtMostFifteenPlacesMore) {
  for (const std::size_t largest : {std::size_t{32}, std::size_t{1024}, kTensor})
    for (std::size_t n = 0; n < 3000; ++n) {
      const PowerBlocks blocks(n, largest);
      std::size_t end = 0, values = 0;
      for (std::size_t k = 0; k < blocks.count(); ++k) {
        const auto [begin, size, used] = blocks[k];
        ASSERT_EQ(begin, end);
        ASSERT_TRUE(std::has_single_bit(size));
        ASSERT_EQ(begin % size, 0u) << "draws of a block have one key";
        ASSERT_TRUE(used == size || k + 1 == blocks.count());
        end += size;
        values += used;
      }
      ASSERT_EQ(values, n);
      ASSERT_EQ(end, blocks.padded());
      ASSERT_LE(end - n, 15u);
    }
}

TEST(PowerBlocks, RefuseOtherSizes) {
  for (const std::size_t largest : {0, 16, 1000, 1 << 25}) {
    const std::string message =
        refusal(ErrorKind::invalid_argument, [&] { PowerBlocks(10, largest); });
    EXPECT_NE(message.find("block_values"), std::string::npos) << message;
  }
}

// --- rotation --------------------------------------------------------------------

/// The definition: signs and scale, then butterflies of each distance of the list.
Values by_definition(Values values, std::uint64_t seed, const Sizes& distances) {
  const std::size_t n = values.size();
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(n)));
  for (std::size_t i = 0; i < n; ++i) {
    const RandomKey key(seed ^ 0x7369676e73, i / 32);
    const bool negative =
        (element_bits(key, static_cast<std::uint32_t>(i / 32)) >> i % 32 & 1) != 0;
    values[i] *= negative ? -scale : scale;
  }
  for (const std::size_t h : distances) {
    const Values old = values;
    for (std::size_t i = 0; i < n; ++i)
      values[i] = (i & h) == 0 ? old[i] + old[i ^ h] : old[i ^ h] - old[i];
  }
  return values;
}

TEST(Rotate, IsItsDefinitionBitForBit) {
  for (std::size_t n = 1; n <= 1 << 17; n *= 2) {
    const std::size_t largest = std::max<std::size_t>(n, 32);
    Sizes distances;
    for (std::size_t h = 1; h < n; h *= 2) distances.push_back(h);
    const Values values = some_values(n, n);
    EXPECT_EQ(bits_of(rotated(values, PowerBlocks(n, largest), 7)),
              bits_of(by_definition(values, 7, distances)))
        << n;
  }
}

TEST(Rotate, IsOrthonormal) {
  // Every butterfly and the scale err by 2^-24 of their result at most: 22 roundings there.
  for (const std::size_t n : {1, 2, 33, 4096, 5000, 100001, 1 << 20}) {
    for (const std::size_t largest : {std::size_t{32}, std::size_t{1024}, kTensor}) {
      const PowerBlocks blocks(n, largest);
      Values values = some_values(n, n);
      const double norm = norm_of(values);
      Values turned = rotated(values, blocks, 11);
      EXPECT_NEAR(norm_of(turned), norm, 22 * 0x1p-24 * norm);
      rotate_back(turned, blocks, 11);
      values.resize(blocks.padded());
      EXPECT_LE(distance(turned, values), 44 * 0x1p-24 * norm) << n << " " << largest;
    }
  }
}

TEST(Rotate, BackIsTheTranspose) {
  const PowerBlocks blocks(9000, kTensor);
  const Values a = some_values(blocks.padded(), 1);
  Values b = some_values(blocks.padded(), 2);
  const Values forward = rotated(a, blocks, 5);
  const double there = std::inner_product(forward.begin(), forward.end(), b.begin(), 0.0);
  rotate_back(b, blocks, 5);
  const double back = std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  EXPECT_NEAR(there, back, 40 * 0x1p-24 * norm_of(a) * norm_of(b));
}

TEST(Rotate, SpreadsOneValueEvenlyAndKeepsBlocksApart) {
  const PowerBlocks blocks(3 * 1024, 1024);
  Values values(blocks.values());
  values[1500] = 32;
  const Values turned = rotated(values, blocks, 3);
  for (std::size_t i = 0; i < turned.size(); ++i)
    EXPECT_EQ(std::fabs(turned[i]), i / 1024 == 1 ? 1.0F : 0.0F);
}

TEST(Rotate, MakesValuesOfDifferentScalesLookNormal) {
  // Of z distributed as N(0, 1): E z^4 = 3 with a standard error of sqrt(96 / n), P(|z| > 2) =
  // 0.0455.
  const std::size_t n = std::size_t{1} << 18;
  Values values = some_values(n, 4);
  for (std::size_t i = 0; i < n; ++i)
    values[i] *= random_below(5, i, 64) == 0 ? 100.0F : 0.01F * static_cast<float>(i % 100);
  const double unit = norm_of(values) / std::sqrt(static_cast<double>(n));
  double fourth = 0, beyond = 0;
  for (const float value : rotated(values, PowerBlocks(n, kTensor), 9)) {
    const double z = double{value} / unit;
    fourth += z * z * z * z;
    beyond += std::fabs(z) > 2 ? 1 : 0;
  }
  const auto count = static_cast<double>(n);
  EXPECT_NEAR(fourth / count, 3, 4 * std::sqrt(96 / count));
  EXPECT_NEAR(beyond / count, 0.0455, 4 * std::sqrt(0.0455 / count));
}

TEST(Rotate, TheSumOfRotatedRanksIsTheRotatedSum) {
  const PowerBlocks blocks(20000, kTensor);
  const Values a = some_values(20000, 1);
  const Values b = some_values(20000, 2);
  Values sum = rotated(a, blocks, 8);
  const Values other = rotated(b, blocks, 8);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
  rotate_back(sum, blocks, 8);
  Values expected(blocks.padded());
  for (std::size_t i = 0; i < a.size(); ++i) expected[i] = a[i] + b[i];
  EXPECT_LE(distance(sum, expected), 50 * 0x1p-24 * (norm_of(a) + norm_of(b)));
}

TEST(Rotate, StaysFiniteUpToTheLargestNorm) {
  const PowerBlocks blocks(1 << 16, kTensor);
  Values values(blocks.padded(), 0x1p104F);  // the norm is 2^112
  Values turned = rotated(values, blocks, 2);
  EXPECT_TRUE(std::ranges::all_of(turned, [](float value) { return std::isfinite(value); }));
  rotate_back(turned, blocks, 2);
  EXPECT_LE(distance(turned, values), 44 * 0x1p-24 * 0x1p112);
}

/// The signs of 2^15 values: one value a block is not zero, and the block's first place shows its
/// sign.
std::vector<int> signs_of(std::uint64_t seed) {
  const std::size_t n = std::size_t{1} << 15;
  const PowerBlocks blocks(n, 32);
  std::vector<int> signs(n);
  for (std::size_t place = 0; place < 32; ++place) {
    Values values(n);
    for (std::size_t i = place; i < n; i += 32) values[i] = 1;
    rotate(values, blocks, seed);
    for (std::size_t i = 0; i < n; i += 32) signs[i + place] = values[i] < 0 ? -1 : 1;
  }
  return signs;
}

TEST(Rotate, SignsAreFairAndOtherSeedsGiveOthers) {
  const std::vector<int> signs = signs_of(1);
  const std::vector<int> others = signs_of(2);
  const auto n = static_cast<double>(signs.size());
  double mean = 0, neighbours = 0, seeds = 0;
  for (std::size_t i = 0; i + 1 < signs.size(); ++i) {
    mean += signs[i];
    neighbours += signs[i] * signs[i + 1];
    seeds += signs[i] * others[i];
  }
  for (const double sum : {mean, neighbours, seeds}) EXPECT_NEAR(sum / n, 0, 4 / std::sqrt(n));
}

TEST(Rotate, GivesTheSameOnEveryComputer) {
  const PowerBlocks blocks(70000, kTensor);
  Values values = rotated(some_values(70000, 3), blocks, 1);
  const auto hash = [&] {
    Bytes bytes;
    ByteWriter writer(bytes);
    for (const std::uint32_t bits : bits_of(values)) writer.u32(bits);
    return hash64(bytes);
  };
  EXPECT_EQ(hash(), 13130264028954726773u);
  rotate_back(values, blocks, 1);
  EXPECT_EQ(hash(), 941321371521761195u);
}

TEST(Rotate, RefusesAnotherNumberOfValues) {
  const PowerBlocks blocks(37, 32);
  Values values(37);  // 40 with padding
  for (const auto turn : {rotate, rotate_back}) {
    const std::string message =
        refusal(ErrorKind::invalid_argument, [&] { turn(values, blocks, 0); });
    EXPECT_NE(message.find("37 given, 40 needed"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace gradwire::lossy
