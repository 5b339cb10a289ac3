// Sums by sketch: those of a plain loop, bit for bit, whether peeling ends well or not.

#include <cmath>

#include "base/bytes.h"
#include "base/hash.h"
#include "error_testing.h"
#include "sketch_testing.h"

namespace gradwire::lossy {
namespace {

using testing::refusal;
using enum ErrorKind;

TEST(Sketch, WorkedByHand) {
  const std::vector<Integers> ranks = {{0, 5, 0, 0, 0, 0, 0, 0, 0, -3},
                                       {0, 2, 7, 0, 0, 0, 0, 0, 0, 0}};
  EXPECT_EQ(index_of(ranks[0], 1), (Index{0b10, 0b10}));
  EXPECT_EQ(index_of(ranks[1], 4), (Index{0b001}));
  EXPECT_EQ(union_of(ranks, 1), (Index{0b110, 0b10}));
  const SketchPlan direct = plan_of(union_of(ranks, 1), 10, {.cells = 0});
  EXPECT_EQ(direct.direct, (std::vector<std::uint32_t>{1, 2, 9}));
  EXPECT_EQ(payload_of(direct, ranks[0], 7), (Integers{5, 0, -3}));
  EXPECT_EQ(summed_payload(direct, ranks, 7), (Integers{7, 7, -3}));
  EXPECT_EQ(restored(direct, {7, 7, -3}), (Integers{0, 7, 7, 0, 0, 0, 0, 0, 0, -3}));

  // One block of 2: three cells, one of each part, have it, and the first of them gives it.
  const Integers one = {0, 0, 0, 0, -4, 6};
  const SketchPlan plan = plan_of(index_of(one, 2), 6, {.block_values = 2, .cells = 1});
  EXPECT_EQ(payload_of(plan, one, 6), (Integers{-4, 6, -4, 6, -4, 6}));
  ASSERT_EQ(plan.order.size(), 1u);
  EXPECT_EQ(plan.order[0].block, 2u);
}

TEST(Sketch, BlocksThatShareAllCellsAreSentDirectlyButOne) {
  // Three cells: all blocks lie in the same ones. The blocks that are in the way go directly, the
  // lowest first, until one is left.
  const std::vector<Integers> ranks = {{4, 0, 0, 1}, {0, 0, 9, -2}};
  SketchPlan plan;
  EXPECT_EQ(sketched_sums(ranks, {.cells = 1}, 9, plan), (Integers{4, 0, 9, -1}));
  EXPECT_EQ(plan.cells, 3u);
  EXPECT_EQ(plan.direct, (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(summed_payload(plan, ranks, 9), (Integers{-1, -1, -1, 4, 9}));
  EXPECT_EQ(plan.most_in_cell, 3u) << "before any was taken out: a bound, not a count";
}

TEST(Sketch, GivesTheSameOnEveryComputer) {
  const auto ranks = sparse_ranks(9000, 700, 3, 4, 1000, 1);
  SketchPlan plan;
  const Integers sums =
      sketched_sums(ranks, {.block_values = 3, .cells = 1.15, .seed = 5}, 1000, plan);
  EXPECT_FALSE(plan.direct.empty());
  Bytes bytes;
  ByteWriter writer(bytes);
  for (const PeeledBlock& each : plan.order) {
    writer.u32(each.block);
    writer.u32(each.cell);
  }
  for (const std::uint32_t block : plan.direct) writer.u32(block);
  for (const std::int32_t value : summed_payload(plan, ranks, 1000))
    writer.u32(static_cast<std::uint32_t>(value));
  for (const std::int32_t sum : sums) writer.u32(static_cast<std::uint32_t>(sum));
  EXPECT_EQ(hash64(bytes), 16156780720848012824u);
}

TEST(Sketch, IsExactForAThousandRandomUnions) {
  std::size_t with_direct = 0, large_with_direct = 0;
  for (std::uint64_t k = 0; k < 1000; ++k) {
    const auto draw = [k](std::uint64_t which, std::uint32_t below) {
      return random_below(which, k, below);
    };
    constexpr std::size_t kLanes[] = {1, 1, 4, 16};
    constexpr double kCells[] = {1.3, 1.35, 1.5, 2};
    const std::size_t lanes = kLanes[draw(1, 4)];
    // 10 to 20,000 values that are not 0, all sizes of them alike often; of n at least as many.
    const double size = 10 * std::pow(2000.0, draw(2, 1001) / 1000.0);
    const std::size_t blocks = static_cast<std::size_t>(std::ceil(size)) / lanes + 1;
    const std::size_t n = blocks * lanes * (1 + draw(3, 6)) + draw(4, 20);
    const unsigned world = 2 + draw(5, k % 4 == 0 ? 63 : 7);
    const SketchOptions options{.block_values = lanes, .cells = kCells[draw(6, 4)], .seed = k};
    const std::uint32_t most = value_limit(options, world);
    const auto ranks = sparse_ranks(n, blocks, lanes, world, most, k);
    SketchPlan plan;
    ASSERT_TRUE(sketched_sums(ranks, options, most, plan) == plain_sums(ranks)) << "case " << k;
    ASSERT_EQ(plan.union_blocks, blocks);
    ASSERT_EQ(plan.order.size() + plan.direct.size(), blocks);
    if (!plan.direct.empty()) ++with_direct;
    if (!plan.direct.empty() && blocks >= 3000) ++large_with_direct;
  }
  EXPECT_EQ(large_with_direct, 0u);
  EXPECT_GT(with_direct, 50u) << "small unions need a direct block now and then";
}

TEST(Sketch, BelowTheThresholdSaysSoAndIsExactAllTheSame) {
  const auto ranks = sparse_ranks(100000, 20000, 1, 3, 1000, 7);
  const Integers expected = plain_sums(ranks);
  for (const double cells : {0.1, 0.5, 1.0, 1.2}) {
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      SketchPlan plan;
      ASSERT_TRUE(sketched_sums(ranks, {.cells = cells, .seed = seed}, 1000, plan) == expected);
      EXPECT_GT(plan.direct.size(), 50u) << cells;
      // Fewer cells leave more to be sent directly, but never as much as they save.
      EXPECT_LT(payload_per_block(plan), 1.22) << cells;
      if (cells == 1.0) {
        EXPECT_NEAR(payload_per_block(plan), 1.12, 0.01);
      }
    }
  }
}

TEST(Sketch, AboveTheThresholdLargeUnionsHaveNoDirectBlock) {
  for (const double cells : {1.25, 1.3, 1.35}) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      const Index index = union_of(sparse_ranks(100000, 20000, 1, 1, 1, seed), 1);
      const SketchPlan plan = plan_of(index, 100000, {.cells = cells, .seed = seed});
      EXPECT_TRUE(plan.direct.empty()) << cells << ", seed " << seed;
      EXPECT_NEAR(payload_per_block(plan), cells, 2e-4);
    }
  }
}

TEST(Sketch, EdgesOfSizeAndDensity) {
  for (const double cells : {0.0, 0.1, 1.35, 8.0}) {
    for (const std::size_t lanes : {1, 3, 64, 1024}) {
      for (const std::size_t n : {0, 1, 2, 7, 8, 9, 63, 64, 65, 1000}) {
        const std::size_t all = (n + lanes - 1) / lanes;
        for (const std::size_t blocks : {std::size_t{0}, std::min<std::size_t>(all, 1), all}) {
          const SketchOptions options{.block_values = lanes, .cells = cells};
          const std::uint32_t most = value_limit(options, 3);
          const auto ranks = sparse_ranks(n, blocks, lanes, 3, most, n);
          SketchPlan plan;
          ASSERT_EQ(sketched_sums(ranks, options, most, plan), plain_sums(ranks))
              << n << " values, " << blocks << " blocks of " << lanes << ", cells " << cells;
          ASSERT_EQ(plan.union_blocks, blocks);
          if (blocks == 0) {
            ASSERT_EQ(plan.payload_values(), 0u);
          }
          if (cells == 0) {
            ASSERT_EQ(plan.payload_values(), blocks * lanes);
          }
        }
      }
    }
  }
}

TEST(Sketch, ABlockOfTheUnionMayHaveNothingAnywhere) {
  // An index can only promise too much: a bit that no rank set costs cells, not exactness.
  const std::vector<Integers> ranks = {{1, 0, 0, 2}, {0, 0, 0, 5}};
  const SketchPlan plan = plan_of({0b1111}, 4, {.cells = 2});
  EXPECT_EQ(restored(plan, summed_payload(plan, ranks, 5)), (Integers{1, 0, 0, 7}));
}

TEST(Sketch, IndexIsThatOfAPlainLoop) {
  for (const std::size_t lanes : {1, 2, 5, 16, 100}) {
    for (const std::size_t n : {1, 7, 8, 255, 256, 257, 1000, 4099}) {
      const Integers values = sparse_ranks(n, (n + lanes - 1) / lanes / 3, lanes, 1, 1, n)[0];
      Index expected(index_bytes(n, lanes));
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t b = i / lanes;
        if (values[i] != 0)
          expected[b / 8] = static_cast<std::uint8_t>(expected[b / 8] | 1 << b % 8);
      }
      ASSERT_EQ(index_of(values, lanes), expected) << n << " in blocks of " << lanes;
    }
  }
}

TEST(Sketch, NoSumOverflowsAtTheLimitOfValues) {
  for (const double cells : {0.0, 0.2, 1.35}) {
    for (const unsigned world : {2u, 3u, 64u}) {
      const std::uint32_t most = value_limit({.cells = cells}, world);
      // All alike: every cell has the largest sum it can have.
      const std::vector<Integers> ranks(world, Integers(3000, -static_cast<std::int32_t>(most)));
      SketchPlan plan;
      ASSERT_EQ(sketched_sums(ranks, {.cells = cells}, most, plan), plain_sums(ranks));
      if (cells == 0.2) {
        EXPECT_EQ(plan.most_in_cell, kMostBlocksInCell);
      }
    }
  }
  EXPECT_EQ(value_limit({.cells = 0}, 1), 0x7fffffffu);
  EXPECT_EQ(value_limit({}, 64), (1u << 21) - 1);
}

TEST(Sketch, ScratchAndPlanOfAnotherUnionChangeNothing) {
  SketchScratch scratch;
  SketchPlan plan;
  for (std::uint64_t k = 0; k < 20; ++k) {
    const std::size_t blocks = random_below(1, k, 500);
    const auto ranks = sparse_ranks(2000, blocks, 1, 2, 9, k);
    const SketchOptions options{.cells = k % 5 == 0 ? 0 : 1.1, .seed = k};
    plan_sketch(union_of(ranks, 1), 2000, options, scratch, plan);
    EXPECT_EQ(restored(plan, summed_payload(plan, ranks, 9)), plain_sums(ranks));
    EXPECT_EQ(plan.direct, plan_of(union_of(ranks, 1), 2000, options).direct);
  }
}

TEST(Sketch, DamageToACellIsFound) {
  const auto ranks = sparse_ranks(400, 60, 2, 2, 50, 3);
  const SketchPlan plan = plan_of(union_of(ranks, 2), 400, {.block_values = 2, .cells = 1.3});
  const Integers sent = summed_payload(plan, ranks, 50);
  for (std::size_t i = 0; i < plan.cells * 2; ++i) {
    Integers payload = sent;
    payload[i] ^= 1 << i % 31;
    const std::string message = refusal(corrupt, [&] { restored(plan, payload); });
    EXPECT_NE(message.find("payload: cell "), std::string::npos) << message;
  }
}

TEST(Sketch, CountsItsBits) {
  const auto ranks = sparse_ranks(1001, 300, 1, 2, 9, 4);
  const SketchPlan plan = plan_of(union_of(ranks, 1), 1001, {.cells = 1.2});
  const SketchBits bits = bits_of(plan);
  EXPECT_EQ(bits.index, 126u * 8);
  EXPECT_EQ(bits.cells, 360u * 32);
  EXPECT_EQ(bits.direct, plan.direct.size() * 32);
  EXPECT_EQ(bits.total(), (126u * 8) + plan.payload_values() * 32);
  EXPECT_DOUBLE_EQ(payload_per_block(plan), static_cast<double>(plan.payload_values()) / 300);
  const SketchPlan blocks = plan_of(Index(8, 0xff), 1024, {.block_values = 16});
  EXPECT_EQ(bits_of(blocks).index, 64u);
  EXPECT_EQ(bits_of(blocks).cells + bits_of(blocks).direct, blocks.payload_values() * 32);
  EXPECT_EQ(payload_per_block(plan_of({}, 0, {})), 0);
}

TEST(Sketch, RefusesOptionsOutOfRange) {
  const auto message = [](const SketchOptions& options) {
    return refusal(invalid_argument, [&] { check_options(options); });
  };
  EXPECT_EQ(message({.block_values = 0}), "block_values: 0 given, 1 to 1024 are allowed");
  EXPECT_EQ(message({.block_values = 1025}), "block_values: 1025 given, 1 to 1024 are allowed");
  EXPECT_EQ(message({.cells = 0.05}), "cells: 0.05 given, 0 or 0.1 to 8 are allowed");
  for (const double cells : {-1.0, 8.1, std::nan(""), HUGE_VAL}) message({.cells = cells});
  EXPECT_EQ(refusal(invalid_argument, [] { value_limit({}, 0); }),
            "world: 0 given, 1 or more are allowed");
  EXPECT_EQ(refusal(limit, [] { value_limit({}, 1u << 28); }),
            "sketch: sums over 268435456 ranks do not fit 32 bits");
}

TEST(Sketch, RefusesWhatDoesNotFitThePlan) {
  EXPECT_EQ(refusal(invalid_argument, [] { plan_of(Index(3), 10, {}); }),
            "index: 3 bytes given, 10 values in blocks of 1 have 2");
  EXPECT_EQ(refusal(corrupt, [] { plan_of({0, 0b100}, 10, {}); }),
            "index: bits are set behind block 9, the last one");
  EXPECT_EQ(refusal(invalid_argument, [] { Index(2), mark_index(Integers(4), 1, {}); }),
            "index: 0 bytes given, 4 values in blocks of 1 have 1");
  const SketchPlan plan = plan_of({0b0110}, 4, {});
  EXPECT_EQ(refusal(invalid_argument, [&] { payload_of(plan, {0, 1, 1, 1}, 1); }),
            "values: block 3 is not in the agreed index");
  EXPECT_EQ(refusal(invalid_argument, [&] { payload_of(plan, {0, 1, -6, 0}, 5); }),
            "values: element 2 is -6, magnitudes of at most 5 are allowed");
  EXPECT_EQ(refusal(invalid_argument, [&] { payload_of(plan, {0, 1, INT32_MIN, 0}, 5); }),
            "values: element 2 is -2147483648, magnitudes of at most 5 are allowed");
  EXPECT_EQ(refusal(invalid_argument, [&] { payload_of(plan, {0, 1}, 5); }),
            "values: size 2 given, the plan's is 4");
  EXPECT_EQ(refusal(invalid_argument, [&] { restored(plan, {1}); }),
            "payload: size 1 given, the plan's is 4");
  Integers three(3), payload(plan.payload_values());
  EXPECT_EQ(refusal(invalid_argument, [&] { restore_sums(plan, payload, three); }),
            "sums: size 3 given, the plan's is 4");
  ASSERT_EQ(plan.most_in_cell, 2u);
  EXPECT_EQ(refusal(limit, [&] { payload_bound(plan, 1u << 30); }),
            "sketch: 2 values of magnitude 1073741824 share a cell, 32 bits do not hold their sum");
}

}  // namespace
}  // namespace gradwire::lossy
