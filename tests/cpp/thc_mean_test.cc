// THC among ranks: what the mean errs by, sums that are exact.

#include <bit>
#include <functional>
#include <random>

#include "lossy/transform/hadamard.h"
#include "thc_testing.h"

namespace gradwire::lossy {
namespace {

constexpr std::size_t kTensor = std::size_t{1} << 23;

/// Gradients of ranks that see the same up to noise: layers of 20,000 values with scales e^{1.5 N}.
std::vector<Values> mixed_scales(std::size_t n, unsigned ranks, double noise) {
  std::mt19937_64 generator(1);
  std::normal_distribution<double> normal;
  std::vector<Values> values(ranks, Values(n));
  double scale = 1;
  for (std::size_t i = 0; i < n; ++i) {
    if (i % 20000 == 0) scale = std::exp(1.5 * normal(generator));
    const double common = normal(generator);
    for (Values& rank : values)
      rank[i] = static_cast<float>(scale * (common + noise * normal(generator)));
  }
  return values;
}

/// Norms as an all-reduce gives them: the largest, compared as integers.
Values shared_norms(const std::vector<Values>& ranks, const PowerBlocks& blocks) {
  std::vector<std::int64_t> most(blocks.count());
  for (const Values& rank : ranks) {
    const Values norms = norms_of(rank, blocks);
    for (std::size_t k = 0; k < most.size(); ++k)
      most[k] = std::max<std::int64_t>(most[k], std::bit_cast<std::uint32_t>(norms[k]));
  }
  Values norms;
  for (const std::int64_t bits : most)
    norms.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  return norms;
}

/// A step as the exchange does it. The sum goes through words and must be that of the entries.
Values mean_by_thc(const std::vector<Values>& ranks, const PowerBlocks& blocks,
                   const Values& norms) {
  const TableQuantiser quantiser({});
  const Lanes lanes = lanes_for(quantiser.table().top, static_cast<std::uint32_t>(ranks.size()));
  EXPECT_EQ(lanes.bits, 8u);
  Words total(word_count(lanes, blocks.padded())), words(total.size());
  Sums expected(blocks.padded()), sums(blocks.padded());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    Values values = ranks[rank];
    values.resize(blocks.padded());
    rotate(values, blocks, 1);
    Octets entries = indices_of(quantiser, values, blocks, norms, 100 + rank);
    quantiser.add_entries(entries, expected);
    quantiser.to_entries(entries, entries);
    pack_entries(entries, lanes, words);
    std::ranges::transform(total, words, total.begin(), std::plus<>());
  }
  unpack_sums(total, lanes, sums);
  EXPECT_EQ(sums, expected);
  Values mean(blocks.padded());
  quantiser.decode(sums, static_cast<std::uint32_t>(ranks.size()), blocks, norms, mean);
  rotate_back(mean, blocks, 1);
  mean.resize(blocks.values());
  return mean;
}

TEST(ThcMean, OfFourRanksErrsLittleOnLayersOfMixedScale) {
  const std::size_t n = std::size_t{1} << 20;
  const PowerBlocks whole(n, kTensor), partial(n, 1024);
  for (const double noise : {0.0, 0.25}) {
    const std::vector<Values> ranks = mixed_scales(n, 4, noise);
    EXPECT_LE(error_of_mean(ranks, mean_by_thc(ranks, whole, shared_norms(ranks, whole))), 0.008);
    EXPECT_LE(error_of_mean(ranks, mean_by_thc(ranks, partial, shared_norms(ranks, partial))),
              0.012);
  }
}

TEST(ThcMean, NeedsANormABlockWhereTheRotationIsPartial) {
  const std::size_t n = std::size_t{1} << 20;
  const PowerBlocks whole(n, kTensor), partial(n, 1024);
  const std::vector<Values> ranks = mixed_scales(n, 4, 0);
  Values norms;
  spread_norm(shared_norms(ranks, whole)[0], partial, norms);
  EXPECT_GT(error_of_mean(ranks, mean_by_thc(ranks, partial, norms)), 0.2);
}

TEST(ThcMean, OfEightRanksAndAnOddNumberOfValues) {
  const std::size_t n = 100003;
  const std::vector<Values> ranks = mixed_scales(n, 8, 0.25);
  for (const std::size_t largest : {std::size_t{1024}, kTensor}) {
    const PowerBlocks blocks(n, largest);
    const double error =
        error_of_mean(ranks, mean_by_thc(ranks, blocks, shared_norms(ranks, blocks)));
    EXPECT_LE(error, 0.006);
    EXPECT_GT(error, 0.001);
  }
}

TEST(ThcMean, OfIndependentRanksErrsAsOneRankDoes) {
  // Errors and the mean shrink alike: rounding + clipping of the table, 0.0216.
  const std::size_t n = std::size_t{1} << 18;
  const PowerBlocks blocks(n, kTensor);
  const std::vector<Values> ranks = mixed_scales(n, 4, 1000);
  EXPECT_NEAR(error_of_mean(ranks, mean_by_thc(ranks, blocks, shared_norms(ranks, blocks))), 0.0216,
              0.002);
}

TEST(ThcMean, LosesARankByDividingByThoseThatCame) {
  const TableQuantiser quantiser({});
  const PowerBlocks blocks(512, 512);
  const Values values = some_values(512, 1);
  const Values norms = norms_of(values, blocks);
  Sums sums(512);
  for (const std::uint64_t seed : {1u, 2u, 3u})
    quantiser.add_entries(indices_of(quantiser, values, blocks, norms, seed), sums);
  Values mean(512);
  quantiser.decode(sums, 3, blocks, norms, mean);
  EXPECT_LT(error_of_mean({values}, mean), 0.02);
}

}  // namespace
}  // namespace gradwire::lossy
