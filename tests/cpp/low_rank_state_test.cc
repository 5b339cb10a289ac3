// What a low-rank step keeps and where it applies: states saved and loaded, another matrix_rank,
// views, what goes dense, options.

#include <limits>

#include "low_rank_testing.h"

namespace gradwire::lossy {
namespace {

using feedback::FeedbackKind;
constexpr auto kInvalid = ErrorKind::invalid_argument;
const LowRankKind kKinds[] = {powersgd, acpsgd};
const Shape kShape{20, 30};

std::vector<Values> gradients_of(std::uint64_t step) {
  return {some_values(600, 2 * step), some_values(600, 2 * step + 1)};
}

/// After `steps` steps of two ranks.
World used(const LowRankOptions& options, std::uint64_t steps) {
  World world(options, kShape, 2, FeedbackKind::error);
  for (std::uint64_t step = 0; step < steps; ++step) (void)world.step(gradients_of(step));
  return world;
}

LowRank rank_of(const LowRankOptions& options) { return LowRank(options, "w", kShape); }

TEST(LowRankState, ResumedStepsAreThoseOfAnUninterruptedRun) {
  for (const LowRankKind kind : kKinds)
    for (const std::uint64_t steps : {0u, 1u, 4u, 5u}) {
      World kept = used({.kind = kind, .seed = 9}, steps);
      World resumed({.kind = kind, .seed = 9}, kShape, 2, FeedbackKind::error);
      for (std::size_t k = 0; k < 2; ++k) {
        resumed.ranks[k].load(kept.ranks[k].save());
        resumed.feedback[k].load(kept.feedback[k].save());
      }
      EXPECT_EQ(resumed.ranks[0].steps(), steps);
      for (std::uint64_t step = steps; step < steps + 3; ++step)
        EXPECT_EQ(kept.step(gradients_of(step)), resumed.step(gradients_of(step)));
      EXPECT_EQ(kept.ranks[0].save(), resumed.ranks[0].save());
    }
}

/// Draws for missing columns depend on the step, which a state has, too.
TEST(LowRankState, ResumedStepsDrawWhatAnUninterruptedRunDraws) {
  for (const LowRankKind kind : kKinds) {
    World kept({.kind = kind}, kShape, 1);
    (void)kept.step({Values(600)});
    World resumed({.kind = kind}, kShape, 1);
    resumed.ranks[0].load(kept.ranks[0].save());
    EXPECT_EQ(kept.step({some_values(600, 1)}), resumed.step({some_values(600, 1)}));
  }
}

TEST(LowRankState, IsTheSameOnAllRanksAndFitsAnyNumberOfThem) {
  for (const LowRankKind kind : kKinds) {
    World two = used({.kind = kind}, 3);
    EXPECT_EQ(two.ranks[0].save(), two.ranks[1].save());
    World four({.kind = kind}, kShape, 4);
    for (LowRank& rank : four.ranks) rank.load(two.ranks[0].save());
    (void)four.step({4, some_values(600, 1)});
  }
}

TEST(LowRankState, ASavedStateDuringAStepIsTheOneBefore) {
  World world = used({}, 2);
  LowRank& rank = world.ranks[0];
  const Bytes state = rank.save();
  const Values values = some_values(600, 1);
  const auto factor = *rank.begin(values);
  EXPECT_EQ(rank.save(), state);
  ASSERT_TRUE(rank.proceed(values, Values(factor.begin(), factor.end())));
  EXPECT_EQ(rank.save(), state);
  rank.load(state);
  EXPECT_FALSE(refusal(kInvalid, [&] { (void)rank.finish(Values(120)); }).empty());
}

TEST(LowRankState, OfAnotherParameterOrMethodIsRefused) {
  const Bytes state = used({.kind = powersgd, .matrix_rank = 4}, 1).ranks[0].save();
  LowRank other_kind = rank_of({.kind = acpsgd, .matrix_rank = 4});
  EXPECT_EQ(refusal(kInvalid, [&] { other_kind.load(state); }),
            "low_rank state of 'w': saved by powersgd, this run uses acpsgd; resume with the "
            "method of the checkpoint, or start without its low-rank state");
  LowRank other_shape({.matrix_rank = 4}, "w", Shape{30, 20});
  EXPECT_EQ(refusal(kInvalid, [&] { other_shape.load(state); }),
            "low_rank state of 'w': saved for a matrix of 20 x 30, the parameter's is 30 x 20");
  LowRank other_rank = rank_of({.matrix_rank = 3});
  EXPECT_EQ(refusal(kInvalid, [&] { other_rank.load(state); }),
            "low_rank state of 'w': saved with matrix_rank 4, this run uses 3; load it with 4 and "
            "change the matrix_rank then");
}

TEST(LowRankState, ThatIsDamagedIsRefusedAndChangesNothing) {
  World world = used({}, 1);
  LowRank& rank = world.ranks[0];
  const Bytes before = rank.save();
  const Bytes state = used({}, 2).ranks[0].save();
  for (std::size_t n = 0; n < state.size(); ++n)
    refusal(ErrorKind::truncated, [&] { rank.load(ByteSpan(state).first(n)); });
  Bytes longer = state;
  longer.push_back(0);
  refusal(ErrorKind::corrupt, [&] { rank.load(longer); });
  Bytes newer = state;
  newer[0] = 2;
  refusal(ErrorKind::unsupported, [&] { rank.load(newer); });
  Bytes unknown = state;
  unknown[1] = 7;
  refusal(kInvalid, [&] { rank.load(unknown); });
  for (const float bad : {NAN, INFINITY, 0x1p120F}) {
    Bytes damaged = state;
    store(damaged.data() + damaged.size() - sizeof bad, bad);
    refusal(ErrorKind::corrupt, [&] { rank.load(damaged); });
  }
  EXPECT_EQ(rank.save(), before);
}

TEST(LowRankState, AnotherMatrixRankKeepsTheFirstColumns) {
  for (const LowRankKind kind : kKinds)
    for (const std::uint64_t steps : {2u, 3u}) {
      // The first columns have the largest singular values: what is dropped is the least.
      const Values matrix = matrix_of_spectrum({20, 30}, {8, 4, 2, 1}, 1);
      World world({.kind = kind, .matrix_rank = 4}, kShape, 2);
      for (std::uint64_t step = 0; step < 20 + steps; ++step) (void)world.step({2, matrix});
      for (LowRank& rank : world.ranks) rank.set_matrix_rank(2);
      EXPECT_EQ(world.ranks[0].matrix_rank(), 2u);
      const double best = std::sqrt((4.0 + 1) / (64 + 16 + 4 + 1));
      EXPECT_NEAR(relative_error(world.step({2, matrix}), matrix), best, 0.01 * best);
      for (LowRank& rank : world.ranks) rank.set_matrix_rank(4);
      (void)world.step({2, matrix});
      EXPECT_LT(relative_error(world.step({2, matrix}), matrix), 64 * kUnit);
    }
}

TEST(LowRankState, AnotherMatrixRankIsClippedAndResumes) {
  LowRank rank = rank_of({.matrix_rank = 4});
  rank.set_matrix_rank(256);
  EXPECT_EQ(rank.matrix_rank(), 20u);
  LowRank as_new = rank_of({.matrix_rank = 100});
  EXPECT_EQ(as_new.save(), rank.save()) << "drawn columns are those of a new one";
  as_new.load(rank.save());
  for (const unsigned wrong : {0u, 257u}) refusal(kInvalid, [&] { rank.set_matrix_rank(wrong); });
  EXPECT_EQ(rank.matrix_rank(), 20u);
}

TEST(LowRankView, HasTheFirstDimensionAsRows) {
  const auto sides = [](const Shape& shape) {
    const MatrixView view = matrix_of(shape);
    return std::pair(view.rows, view.columns);
  };
  EXPECT_EQ(sides({}), std::pair(1ul, 1ul));
  EXPECT_EQ(sides({7}), std::pair(7ul, 1ul));
  EXPECT_EQ(sides({64, 3, 7, 7}), std::pair(64ul, 147ul));
  EXPECT_EQ(sides({0, 5}), std::pair(0ul, 5ul));
  EXPECT_EQ(sides({5, 0, 1ul << 62, 1ul << 62}), std::pair(5ul, 0ul));
  refusal(ErrorKind::limit, [&] { sides({1ul << 31, 1ul << 31}); });
  refusal(ErrorKind::limit, [&] { sides({2, 1ul << 33, 1ul << 33}); });
}

TEST(LowRankView, WhatGainsLittleGoesDense) {
  EXPECT_TRUE(is_dense(Shape{}, {}));
  EXPECT_TRUE(is_dense(Shape{100000}, {}));
  EXPECT_TRUE(is_dense(Shape{0, 1000}, {}));
  EXPECT_TRUE(is_dense(Shape{1000, 1}, {}));
  // 16 x 16 / (32 x 4) is 2 just so.
  EXPECT_FALSE(is_dense(Shape{16, 4, 4}, {.matrix_rank = 4}));
  EXPECT_TRUE(is_dense(Shape{16, 15}, {.matrix_rank = 4}));
  EXPECT_TRUE(is_dense(Shape{16, 16}, {.matrix_rank = 4, .min_compression = 2.01F}));
  EXPECT_FALSE(is_dense(Shape{1000, 1}, {.min_compression = 0}));
  // Three columns have three directions: clipped, 1000 x 3 / (1003 x 3).
  EXPECT_FALSE(is_dense(Shape{1000, 3}, {.matrix_rank = 99, .min_compression = 0.99F}));
}

TEST(LowRankOptions, OutOfRangeAreRefused) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const LowRankOptions& options :
       {LowRankOptions{.kind = static_cast<LowRankKind>(2)}, LowRankOptions{.matrix_rank = 0},
        LowRankOptions{.matrix_rank = 257}, LowRankOptions{.min_compression = -1},
        LowRankOptions{.min_compression = kNan}}) {
    refusal(kInvalid, [&] { (void)rank_of(options); });
    refusal(kInvalid, [&] { (void)is_dense(kShape, options); });
  }
  EXPECT_EQ(refusal(kInvalid, [&] { LowRank({}, "w", Shape{0, 3}); }),
            "low_rank of 'w': a matrix of 0 x 3 has no factors");
  refusal(ErrorKind::limit, [&] { LowRank({}, "w", Shape{1ul << 32, 1}); });
}

}  // namespace
}  // namespace gradwire::lossy
