// Reduce-scatters and all-gathers of even shards against a plain reference, bit by bit, and with
// damaged messages.

#include "exchange_testing.h"

namespace gradwire::testing {
namespace {

/// Ranks whose bucket is one shard of these tensors a rank.
Ranks sharded(DType dtype, const std::vector<BucketTensor>& shard, unsigned world,
              ExchangeOptions options) {
  options.even_shards = true;
  Ranks ranks(dtype, shard, world, options);
  for (unsigned r = 1; r < world; ++r)
    ranks.tensors.insert(ranks.tensors.end(), shard.begin(), shard.end());
  return ranks;
}

void start_reduce_scatter(Ranks& ranks, std::uint32_t step) {
  ranks.exchanges.clear();
  for (std::size_t r = 0; r < ranks.buckets.size(); ++r)
    ranks.exchanges.push_back(ranks.buckets[r].reduce_scatter(ranks.data[r], step));
}

void start_all_gather(Ranks& ranks, std::uint32_t step) {
  ranks.exchanges.clear();
  for (std::size_t r = 0; r < ranks.buckets.size(); ++r)
    ranks.exchanges.push_back(ranks.buckets[r].all_gather(ranks.data[r], step));
}

Bytes shard_of(const Bytes& data, std::size_t rank, std::size_t world) {
  const auto bytes = static_cast<std::ptrdiff_t>(data.size() / world);
  const auto begin = data.begin() + static_cast<std::ptrdiff_t>(rank) * bytes;
  return {begin, begin + bytes};
}

/// Each rank's values with its own shard replaced by that of `source`.
std::vector<Bytes> with_shards_of(std::vector<Bytes> data, const Bytes& source) {
  for (std::size_t r = 0; r < data.size(); ++r)
    std::ranges::copy(
        shard_of(source, r, data.size()),
        data[r].begin() + static_cast<std::ptrdiff_t>(r * (source.size() / data.size())));
  return data;
}

void expect_no_errors(const Ranks& ranks) {
  for (const auto& exchange : ranks.exchanges) {
    EXPECT_TRUE(exchange->done());
    EXPECT_FALSE(exchange->error()) << exchange->error()->what();
  }
}

void expect_reduced(Ranks& ranks, std::uint32_t step) {
  ranks.fill(step);
  const std::vector<Bytes> expected = with_shards_of(ranks.data, ranks.expected);
  start_reduce_scatter(ranks, step);
  ranks.run(step);
  expect_no_errors(ranks);
  EXPECT_TRUE(ranks.data == expected);
}

void expect_gathered(Ranks& ranks, std::uint32_t step) {
  ranks.fill(step);
  Bytes expected;
  for (std::size_t r = 0; r < ranks.data.size(); ++r) {
    const Bytes own = shard_of(ranks.data[r], r, ranks.data.size());
    expected.insert(expected.end(), own.begin(), own.end());
  }
  start_all_gather(ranks, step);
  ranks.run(step);
  expect_no_errors(ranks);
  for (const Bytes& data : ranks.data) EXPECT_TRUE(data == expected);
}

class Sharded : public ::testing::TestWithParam<unsigned> {};

TEST_P(Sharded, GivesTheReferencesBits) {
  std::mt19937_64 random(GetParam());
  for (const DType dtype : kFloats) {
    for (const SumOrder order : {SumOrder::rank, SumOrder::gloo}) {
      for (const std::uint64_t n : {0, 1, 700, 3001}) {
        ExchangeOptions options{.order = order, .mean = n != 700, .piece_elements = 500};
        options.compress.level = static_cast<int>(1 + random() % 3);
        SCOPED_TRACE(formatted("{} n {} order {}", dtype_name(dtype), n, static_cast<int>(order)));
        Ranks ranks = sharded(dtype, draw_tensors(n, random), GetParam(), options);
        for (std::uint32_t step = 0; step < 4; step += 2) {
          expect_reduced(ranks, step);
          expect_gathered(ranks, step + 1);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Sharded, ::testing::Range(1u, 6u));

TEST(ShardedExchange, MakesBothHalvesOfTwoShotsSum) {
  Ranks ranks = sharded(DType::bf16, {{{30, 40}}, {{7}}}, 3, {.order = SumOrder::gloo});
  expect_reduced(ranks, 0);
  start_all_gather(ranks, 1);
  ranks.run(1);
  ranks.expect_right();
}

TEST(ShardedExchange, TakesAllReducesToo) {
  Ranks ranks = sharded(DType::f32, {{{30, 40}}, {{7}}}, 3, {.piece_elements = 400});
  for (const bool gather : {false, true}) {
    ranks.fill(gather ? 1 : 0);
    ranks.start(gather, gather ? 1 : 0);
    ranks.run(5);
    ranks.expect_right();
  }
}

TEST(ShardedExchange, CountsItsBytesApart) {
  Ranks ranks = sharded(DType::f32, {{{64, 64}}}, 3, {.piece_elements = 1000});
  expect_reduced(ranks, 0);
  const ExchangeStats reduced = ranks.exchanges[0]->stats();
  expect_gathered(ranks, 1);
  const ExchangeStats gathered = ranks.exchanges[0]->stats();
  EXPECT_EQ(reduced.to_owners.original, 2 * 64 * 64 * 4u);
  EXPECT_EQ(reduced.from_owners.sent(), 0u);
  EXPECT_EQ(gathered.from_owners.original, 2 * 64 * 64 * 4u);
  EXPECT_EQ(gathered.to_owners.sent(), 0u);
}

TEST(ShardedExchange, NoticesDamage) {
  for (const bool gather : {false, true}) {
    for (std::uint64_t at = 0; at < 12; ++at) {
      SCOPED_TRACE(formatted("gather {} message {}", gather, at));
      Ranks ranks = sharded(DType::f32, {{{12, 20}}, {{30}}}, 3, {.piece_elements = 40});
      ranks.fill(1);
      gather ? start_all_gather(ranks, 4) : start_reduce_scatter(ranks, 4);
      bool done = false;
      ranks.run(at, [&](std::uint64_t id, unsigned from, unsigned to, Bytes& bytes) {
        if (id != at % 4 || from != 2 || to != 1) return;
        bytes[at * 7 % bytes.size()] ^= 16;
        done = true;
      });
      EXPECT_TRUE(done);
      EXPECT_TRUE(ranks.exchanges[1]->error());
      // A header of message 0 loses the receiver, and its peers are cancelled.
      for (const auto& exchange : ranks.exchanges)
        EXPECT_TRUE(exchange->done() || exchange->error());
    }
  }
}

TEST(ShardedExchange, RefusesBucketsThatAreCutOtherwise) {
  Bytes data(4000);
  ExchangeBucket uneven(0, DType::f32, {{{1000}}}, 0, 2, {});
  EXPECT_THROW(uneven.reduce_scatter(data, 0), Error);
  EXPECT_THROW(uneven.all_gather(data, 0), Error);
  ExchangeBucket even(0, DType::f32, {{{1000}}}, 0, 2, {.even_shards = true});
  EXPECT_EQ(even.bytes(), 8000u);
  EXPECT_THROW(even.all_gather(data, 0), Error);
  const std::uint64_t many = std::uint64_t{1} << 55;
  EXPECT_THROW(ExchangeBucket(0, DType::f32, {{{many}}}, 0, 3, {.even_shards = true}), Error);
}

}  // namespace
}  // namespace gradwire::testing
