// How buckets are cut, and which buckets are refused.

#include "exchange/pieces.h"
#include "exchange_testing.h"

namespace gradwire::testing {
namespace {

using exchange::Part;
using exchange::Piece;
using exchange::Shard;

/// All parts, in the order of shards and pieces, cover the bucket; pieces keep to their size.
void expect_cover(const std::vector<BucketTensor>& tensors, const std::vector<Shard>& shards,
                  std::uint64_t piece_elements) {
  std::uint64_t at = 0, total = 0;
  for (const BucketTensor& tensor : tensors) total += element_count(tensor.shape);
  for (const Shard& shard : shards) {
    for (const Piece& piece : shard) {
      ASSERT_FALSE(piece.parts.empty());
      std::uint64_t in_piece = 0;
      for (const Part& part : piece.parts) {
        ASSERT_EQ(part.first, at);
        ASSERT_GT(part.n, 0u);
        ASSERT_EQ(element_count(part.shape), part.n);
        at += part.n;
        in_piece += part.n;
      }
      ASSERT_EQ(piece.elements, in_piece);
      ASSERT_LE(in_piece, piece_elements);
    }
  }
  ASSERT_EQ(at, total);
}

TEST(Pieces, CoverEveryBucketInOrder) {
  std::mt19937_64 random(1);
  for (int k = 0; k < 400; ++k) {
    const auto tensors = draw_tensors(random() % (k % 2 == 0 ? 3000 : 200000), random);
    const std::uint64_t piece = 1 + random() % (k % 3 == 0 ? 100 : 70000);
    const std::size_t count = 1 + random() % 8;
    expect_cover(tensors, exchange::cut_bucket(tensors, count, piece), piece);
  }
}

TEST(Pieces, BalanceShards) {
  for (const std::size_t count : {2u, 3u, 8u}) {
    const auto shards =
        exchange::cut_bucket({{{1000, 300}}, {{300}}, {{64, 64, 3, 3}}}, count, 65536);
    for (const Shard& shard : shards) {
      std::uint64_t elements = 0;
      for (const Piece& piece : shard) elements += piece.elements;
      const std::uint64_t share = (300000 + 300 + 36864) / count;
      EXPECT_GT(elements, share * 3 / 4);
      EXPECT_LT(elements, share * 5 / 4);
    }
  }
}

TEST(Pieces, KeepRowsWholeAndJoinThem) {
  const auto shards = exchange::cut_bucket({{{1000, 100}}}, 2, 65536);
  for (const Shard& shard : shards) {
    ASSERT_EQ(shard.size(), 1u);
    ASSERT_EQ(shard[0].parts.size(), 1u);
    EXPECT_EQ(shard[0].parts[0].shape[1], 100u);
  }
}

TEST(ExchangeBucket, RefusesWhatItCannotExchange) {
  const auto refuse = [](DType dtype, std::vector<BucketTensor> tensors, unsigned rank,
                         unsigned world, const ExchangeOptions& options) {
    expect_error(ErrorKind::invalid_argument,
                 [&] { ExchangeBucket(0, dtype, tensors, rank, world, options); });
  };
  const std::vector<BucketTensor> tensors = {{{4, 4}}};
  refuse(DType::i32, tensors, 0, 1, {});
  refuse(DType::f8_e4m3, tensors, 0, 1, {});
  refuse(DType::f32, tensors, 0, 0, {});
  refuse(DType::f32, tensors, 2, 2, {});
  refuse(DType::f32, tensors, 0, 100000, {});
  refuse(DType::f32, tensors, 0, 2, {.piece_elements = 0});
  refuse(DType::f32, tensors, 0, 2, {.compress = {.level = 4}});
  refuse(DType::f32, {{{1ull << 40, 1ull << 40}}}, 0, 2, {});
  refuse(DType::f32, {{{1ull << 40, 1ull << 40, 0}}}, 0, 2, {});
  refuse(DType::f32, {{std::vector<std::uint64_t>(33, 1)}}, 0, 2, {});
  refuse(DType::f64, {{{1ull << 30}}}, 0, 2, {.piece_elements = 1u << 30});
  ExchangeBucket bucket(0, DType::f32, tensors, 0, 2, {});
  Bytes data(63);
  expect_error(ErrorKind::invalid_argument, [&] { bucket.two_shot(data, 0); });
  expect_error(ErrorKind::invalid_argument, [&] { bucket.gather_merge(data, 0); });
  data.resize(64);
  const auto exchange = bucket.two_shot(data, 0);
  expect_error(ErrorKind::invalid_argument, [&] { exchange->complete(0, data); });
}

}  // namespace
}  // namespace gradwire::testing
