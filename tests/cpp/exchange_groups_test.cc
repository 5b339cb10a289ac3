// Tensors of one bucket that are coded in several ways: the same bits, other bytes.

#include "exchange/pieces.h"
#include "exchange_testing.h"

namespace gradwire::testing {
namespace {

constexpr std::uint32_t kStored = 1, kLevel1 = 2, kLevel3 = 3;

/// Group 0 at level 2, and the three above.
ExchangeOptions grouped(ExchangeOptions options) {
  options.groups = {{.coder = Coder::stored}, {.level = 1}, {.level = 3}};
  return options;
}

std::vector<BucketTensor> draw_groups(std::vector<BucketTensor> tensors, std::mt19937_64& random) {
  for (BucketTensor& tensor : tensors) tensor.group = static_cast<std::uint32_t>(random() % 4);
  return tensors;
}

std::vector<BucketTensor> without_groups(std::vector<BucketTensor> tensors) {
  for (BucketTensor& tensor : tensors) tensor.group = 0;
  return tensors;
}

/// What a rank's tensors of each group have been encoded to.
std::vector<GroupBytes> groups_of(Ranks& ranks, bool gather) {
  ranks.fill(1);
  ranks.start(gather, 0);
  ranks.run(1);
  ranks.expect_right();
  return ranks.exchanges[0]->stats().groups;
}

TEST(Groups, LeaveEveryBitAsItIs) {
  for (const unsigned world : {2u, 3u}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const SumOrder order : {SumOrder::gloo, SumOrder::rank}) {
        std::mt19937_64 random(10 * world + static_cast<unsigned>(dtype));
        const ExchangeOptions options = grouped({.order = order, .piece_elements = 700});
        Ranks ranks(dtype, draw_groups(draw_tensors(20011, random), random), world, options);
        for (std::uint32_t step = 0; step < 2; ++step) {
          ranks.fill(step);
          ranks.start(step == 1, step);
          ranks.run(random());
          ranks.expect_right();
        }
      }
    }
  }
}

TEST(Groups, CodeEachTensorAsAskedWhereverItIsCut) {
  const std::vector<BucketTensor> tensors = {
      {{64, 64}}, {{300, 20}, kStored}, {{64, 64}, kLevel1}, {{64}, kStored}, {{64, 64}, kLevel3}};
  for (const bool gather : {false, true}) {
    const ExchangeOptions options = {.piece_elements = 1000};
    Ranks plain(DType::f32, without_groups(tensors), 2, grouped(options));
    Ranks ranks(DType::f32, tensors, 2, grouped(options));
    const std::vector<GroupBytes> one = groups_of(plain, gather), all = groups_of(ranks, gather);
    ASSERT_EQ(all.size(), 4u);
    EXPECT_GE(all[kStored].payload, all[kStored].original);
    for (const std::uint32_t group : {0u, kLevel1, kLevel3}) {
      EXPECT_GT(all[group].payload, 0u);
      EXPECT_LT(all[group].payload, all[group].original);
    }
    EXPECT_EQ(one[kStored].original, 0u);
    std::uint64_t original = 0;
    for (const GroupBytes& group : all) original += group.original;
    EXPECT_EQ(original, one[0].original);
  }
}

TEST(Groups, CountWhatTheWaysCount) {
  for (const unsigned world : {2u, 3u}) {
    std::mt19937_64 random(world);
    Ranks ranks(DType::f32, draw_groups(draw_tensors(9000, random), random), world,
                grouped({.piece_elements = 700}));
    for (const bool gather : {false, true}) {
      GroupBytes total;
      for (const GroupBytes& group : groups_of(ranks, gather)) {
        total.original += group.original;
        total.payload += group.payload;
      }
      const ExchangeStats& stats = ranks.exchanges[0]->stats();
      EXPECT_EQ(total.original, stats.to_owners.original + stats.from_owners.original);
      EXPECT_EQ(total.payload, stats.to_owners.payload + stats.from_owners.payload);
    }
  }
}

TEST(Groups, FollowTheirTensorIntoEveryPart) {
  const auto shards =
      exchange::cut_bucket({{{500, 40}, kLevel3}, {{7}}, {{30000}, kStored}}, 3, 4000);
  for (const exchange::Shard& shard : shards) {
    for (const exchange::Piece& piece : shard) {
      for (const exchange::Part& part : piece.parts) {
        const std::uint32_t group = part.first < 20000 ? kLevel3 : part.first < 20007 ? 0 : kStored;
        EXPECT_EQ(part.group, group) << part.first;
      }
    }
  }
}

TEST(Groups, MayDifferBetweenRanks) {
  const std::vector<BucketTensor> tensors = {{{40, 50}, kStored}, {{500}, kLevel1}};
  Ranks ranks(DType::f32, tensors, 2, grouped({}));
  ranks.buckets[1] = ExchangeBucket(0, DType::f32, without_groups(tensors), 1, 2, {});
  EXPECT_EQ(groups_of(ranks, false).size(), 4u);
}

TEST(Groups, ThatAreNoneAreRefused) {
  const auto refuse = [](std::uint32_t group, const ExchangeOptions& options) {
    expect_error(ErrorKind::invalid_argument,
                 [&] { ExchangeBucket(0, DType::f32, {{{4, 4}}, {{4}, group}}, 0, 2, options); });
  };
  refuse(1, {});
  refuse(4, grouped({}));
  refuse(0, {.groups = {{.level = 4}}});
}

}  // namespace
}  // namespace gradwire::testing
