// Low-rank steps of ranks: exact where the mean has the rank, edges, the state, refusals. Their
// products are the matter of low_rank_products_test.cc, feedback of low_rank_feedback_test.cc.

#include <limits>
#include <numeric>

#include "base/hash.h"
#include "low_rank_testing.h"

namespace gradwire::lossy {
namespace {

using feedback::FeedbackKind;
constexpr auto kInvalid = ErrorKind::invalid_argument;
const LowRankKind kKinds[] = {powersgd, acpsgd};

/// Steps until a step has a basis that has seen the matrix: with acpsgd the second one.
int steps_to_exact(LowRankKind kind) { return kind == powersgd ? 1 : 2; }

/// Relative error of the last of that many steps of equal gradients.
double error_of(World& world, const std::vector<Values>& gradients, int steps) {
  Values out;
  for (int step = 0; step < steps; ++step) out = world.step(gradients);
  return relative_error(out, mean_of(gradients));
}

TEST(LowRank, WorkedByHand) {
  // One column: the first basis is 1 or -1, and the factor the matrix or its negative.
  LowRank rank({}, "w", Shape{2});
  EXPECT_EQ(rank.matrix_rank(), 1u);
  const Values gradient{6, 8};
  const auto first = *rank.begin(gradient);
  const float sign = first[0] > 0 ? 1.0F : -1.0F;
  EXPECT_TRUE(std::ranges::equal(first, Values{sign * 6, sign * 8}));
  EXPECT_TRUE(std::ranges::equal(*rank.proceed(gradient, Values{4, 3}), Values{48.0F / 5}));
  Values out(2);
  rank.decode_own(out);  // (0.8, 0.6) times 9.6
  EXPECT_FLOAT_EQ(out[0], 7.68F);
  EXPECT_FLOAT_EQ(out[1], 5.76F);
  EXPECT_TRUE(rank.finish(Values{5}));
  rank.decode(out);
  EXPECT_EQ(out, (Values{4, 3}));
}

/// Products and bases are rounded. A first basis is drawn: it may share as little as a thousandth
/// with the directions of the matrix, which magnifies its rounding as much.
constexpr double kExact = 64 * kUnit;
constexpr double kFirst = 1024 * kUnit;

TEST(LowRank, IsExactWhereTheMeanHasTheRank) {
  for (const LowRankKind kind : kKinds)
    for (const MatrixView view : {MatrixView{40, 70}, MatrixView{70, 41}, MatrixView{5, 2000}})
      for (std::size_t ranks = 1; ranks <= 4; ++ranks)
        for (unsigned matrix_rank = 1; matrix_rank <= 5; ++matrix_rank) {
          SCOPED_TRACE(::testing::Message() << ranks << " ranks, matrix_rank " << matrix_rank);
          // Of all ranks together; a weight of 0 leaves a rank below matrix_rank.
          std::vector<double> weights(matrix_rank);
          std::iota(weights.begin(), weights.end(), matrix_rank > 2 ? 0.0 : 1.0);
          const Values matrix = matrix_of_spectrum(view, weights, 7);
          std::vector<Values> gradients(ranks, matrix);
          for (std::size_t k = 0; k < ranks; ++k)
            for (float& value : gradients[k]) value *= static_cast<float>(k + 1);
          World world({.kind = kind, .matrix_rank = matrix_rank}, {view.rows, view.columns}, ranks);
          EXPECT_LT(error_of(world, gradients, steps_to_exact(kind)), kFirst);
          EXPECT_LT(error_of(world, gradients, 1), kExact);
        }
}

/// Ranks whose gradients have directions of their own: only the sum of their ranks is enough.
TEST(LowRank, NeedsTheRankOfTheMean) {
  for (const LowRankKind kind : kKinds) {
    std::vector<Values> gradients;
    for (std::uint64_t k = 0; k < 3; ++k)
      gradients.push_back(matrix_of_spectrum({30, 50}, {2, 1}, k));
    World enough({.kind = kind, .matrix_rank = 6}, {30, 50}, 3);
    EXPECT_LT(error_of(enough, gradients, steps_to_exact(kind)), kExact);
    World less({.kind = kind, .matrix_rank = 5}, {30, 50}, 3);
    EXPECT_GT(error_of(less, gradients, 20), 0.01);
  }
}

TEST(LowRank, IsExactForOneRowOrColumn) {
  for (const LowRankKind kind : kKinds)
    for (const Shape& shape : {Shape{1, 100}, Shape{100, 1}, Shape{100}, Shape{}, Shape{1, 1}}) {
      World world({.kind = kind, .matrix_rank = 4}, shape, 3);
      std::vector<Values> gradients;
      for (std::uint64_t k = 0; k < 3; ++k)
        gradients.push_back(some_values(matrix_of(shape).size(), k));
      EXPECT_EQ(world.ranks[0].matrix_rank(), 1u);
      EXPECT_LT(error_of(world, gradients, steps_to_exact(kind)), kExact);
    }
}

TEST(LowRank, ClipsTheMatrixRankToTheShorterSideAndIsExactThere) {
  for (const LowRankKind kind : kKinds) {
    World world({.kind = kind, .matrix_rank = 32}, {6, 3, 3}, 2);
    EXPECT_EQ(world.ranks[0].matrix_rank(), 6u);
    const std::vector<Values> gradients{some_values(54, 1), some_values(54, 2)};
    EXPECT_LT(error_of(world, gradients, 1 + steps_to_exact(kind)), kExact);
  }
}

TEST(LowRank, AZeroGradientGivesZerosAndLeavesNoDamage) {
  for (const LowRankKind kind : kKinds) {
    World world({.kind = kind, .matrix_rank = 3}, {20, 30}, 2, FeedbackKind::error);
    for (int step = 0; step < 3; ++step)
      EXPECT_EQ(world.step({Values(600), Values(600)}), Values(600));
    const Values matrix = matrix_of_spectrum({20, 30}, {3, 2, 1}, 4);
    World plain({.kind = kind, .matrix_rank = 3}, {20, 30}, 2);
    (void)plain.step({Values(600), Values(600)});
    EXPECT_LT(error_of(plain, {matrix, matrix}, steps_to_exact(kind)), kExact);
  }
}

/// Zero rows and columns, first where the values are and then elsewhere.
TEST(LowRank, FindsDirectionsThatEarlierGradientsDidNotHave) {
  for (const LowRankKind kind : kKinds) {
    World world({.kind = kind, .matrix_rank = 3}, {20, 30}, 1);
    Values corner(600);
    Values other(600);
    for (std::size_t i = 0; i < 3; ++i) corner[i * 30 + i] = 1;
    for (std::size_t i = 17; i < 20; ++i) other[i * 30 + i + 10] = static_cast<float>(i);
    EXPECT_LT(error_of(world, {corner}, 4), kExact);
    // Nothing of the new is in the old span: drawn columns must find it.
    EXPECT_LT(error_of(world, {other}, 2 + steps_to_exact(kind)), kExact);
  }
}

TEST(LowRank, EveryStepDrawsOtherColumnsForMissingOnes) {
  for (const LowRankKind kind : kKinds) {
    World world({.kind = kind, .matrix_rank = 2}, {30, 30}, 1);
    const Values values = some_values(900, 1);
    std::vector<Values> factors;
    for (int step = 0; step < 4; ++step) {
      (void)world.step({Values(900)});  // leaves a factor of zeros
      const auto factor = *world.ranks[0].begin(values);
      factors.emplace_back(factor.begin(), factor.end());
    }
    for (std::size_t k = 2; k < 4; ++k) EXPECT_NE(factors[k], factors[k - 2]);  // same side
  }
}

/// Three steps of two ranks with matrix_rank 1 to 9: what is sent, decoded and kept.
std::uint64_t hash_of_steps(LowRankKind kind) {
  Bytes bytes;
  ByteWriter out(bytes);
  for (const unsigned matrix_rank : {1u, 2u, 3u, 4u, 9u}) {
    World world({.kind = kind, .matrix_rank = matrix_rank, .seed = 3}, {37, 1103}, 2,
                FeedbackKind::error);
    for (std::uint64_t step = 0; step < 3; ++step) {
      const Values decoded =
          world.step({some_values(37 * 1103, 2 * step), some_values(37 * 1103, 2 * step + 1)});
      out.bytes({reinterpret_cast<const std::uint8_t*>(decoded.data()), decoded.size() * 4});
      out.bytes(world.ranks[1].save());
      out.bytes(world.feedback[1].save());
    }
  }
  return hash64(bytes);
}

TEST(LowRank, GivesTheSameOnEveryComputer) {
  EXPECT_EQ(hash_of_steps(powersgd), 0x93aec74b9c747d9b);
  EXPECT_EQ(hash_of_steps(acpsgd), 0xd9371bc5d92e6015);
}

TEST(LowRank, TheFirstFactorFollowsTheSeed) {
  const Shape shape{8, 9};
  EXPECT_EQ(LowRank({.seed = 1}, "a", shape).save(), LowRank({.seed = 1}, "b", shape).save());
  EXPECT_NE(LowRank({.seed = 1}, "a", shape).save(), LowRank({.seed = 2}, "a", shape).save());
}

TEST(LowRank, AcpSgdSendsTheFactorsInTurns) {
  LowRank rank({.kind = acpsgd, .matrix_rank = 2}, "w", Shape{30, 50});
  const Values values = some_values(1500, 1);
  for (int step = 0; step < 4; ++step) {
    const std::size_t expected = 2 * (step % 2 == 0 ? 30 : 50);
    EXPECT_EQ(rank.round_values(0), expected);
    const auto factor = *rank.begin(values);
    EXPECT_EQ(factor.size(), expected);
    EXPECT_TRUE(rank.finish(Values(factor.begin(), factor.end())));
  }
  const LowRank both({.kind = powersgd, .matrix_rank = 2}, "w", Shape{30, 50});
  EXPECT_EQ(both.round_values(0), 60u);
  EXPECT_EQ(both.round_values(1), 100u);
}

// --- what is not finite, and steps that fail --------------------------------------------

TEST(LowRank, ReportsWhatIsNotFiniteAndKeepsItsState) {
  for (const LowRankKind kind : kKinds)
    for (const int steps : {0, 1})
      for (const float bad : {NAN, INFINITY, -INFINITY, 0x1p127F})
        for (const std::size_t at : {0u, 77u, 599u}) {
          World world({.kind = kind}, {20, 30}, 1);
          for (int step = 0; step < steps; ++step) (void)world.step({some_values(600, 1)});
          LowRank& rank = world.ranks[0];
          const Bytes state = rank.save();
          Values values = some_values(600, 2);
          values[at] = bad;
          EXPECT_FALSE(rank.begin(values).has_value());
          EXPECT_EQ(rank.save(), state);
          refusal(kInvalid, [&] { rank.decode_own(values); });
        }
}

TEST(LowRank, ReportsAMeanThatIsNotFiniteAndKeepsItsState) {
  for (const LowRankKind kind : kKinds)
    for (const float bad : {NAN, INFINITY, 0x1p120F}) {
      LowRank rank({.kind = kind}, "w", Shape{20, 30});
      const Bytes state = rank.save();
      const Values values = some_values(600, 2);
      auto factor = *rank.begin(values);
      if (kind == powersgd) {
        Values mean(factor.begin(), factor.end());
        mean[5] = bad;
        EXPECT_FALSE(rank.proceed(values, mean).has_value());
        factor = *rank.begin(values);
        factor = *rank.proceed(values, Values(factor.begin(), factor.end()));
      }
      Values mean(factor.begin(), factor.end());
      mean.back() = bad;
      EXPECT_FALSE(rank.finish(mean));
      EXPECT_EQ(rank.save(), state);
      refusal(kInvalid, [&] { (void)rank.finish(mean); });
    }
}

TEST(LowRank, LargeAndSmallValuesStayFinite) {
  for (const LowRankKind kind : kKinds)
    for (const float scale : {0x1p110F, 0x1p-120F, 0x1p-145F}) {
      World world({.kind = kind}, {20, 30}, 2);
      Values values = some_values(600, 2);
      for (float& value : values) value *= scale;
      for (int step = 0; step < 3; ++step)
        for (const float value : world.step({values, values}))
          ASSERT_TRUE(std::fabs(value) <= 32 * scale);
    }
}

TEST(LowRank, AStepThatFailsIsDoneAgainBitForBit) {
  for (const LowRankKind kind : kKinds) {
    World kept({.kind = kind}, {20, 30}, 2, FeedbackKind::error);
    World failing = kept;
    for (std::uint64_t step = 0; step < 4; ++step) {
      const std::vector<Values> gradients{some_values(600, step), some_values(600, 50 + step)};
      for (LowRank& rank : failing.ranks) {  // begun, and with powersgd proceeded, for nothing
        const Values values = some_values(600, 99);
        const auto factor = *rank.begin(values);
        if (kind == powersgd && step % 2 == 0)
          (void)rank.proceed(values, Values(factor.begin(), factor.end()));
      }
      EXPECT_EQ(kept.step(gradients), failing.step(gradients));
    }
    EXPECT_EQ(kept.ranks[1].save(), failing.ranks[1].save());
  }
}

TEST(LowRank, RefusesCallsOutOfTurnAndOtherSizes) {
  const Values values = some_values(600, 1);
  Values out(600);
  LowRank rank({.matrix_rank = 2}, "layer.weight", Shape{20, 30});
  EXPECT_EQ(refusal(kInvalid, [&] { (void)rank.begin(out = Values(599)); }),
            "low_rank of 'layer.weight': 599 values, 600 expected");
  out.resize(600);
  const std::string message = refusal(kInvalid, [&] { rank.decode(out); });
  EXPECT_EQ(message,
            "low_rank of 'layer.weight': decode is not due; a step is begin, proceed, decode_own, "
            "finish, decode");
  refusal(kInvalid, [&] { (void)rank.proceed(values, Values(40)); });
  refusal(kInvalid, [&] { (void)rank.finish(Values(60)); });
  ASSERT_TRUE(rank.begin(values));
  refusal(kInvalid, [&] { rank.decode_own(out); });
  refusal(kInvalid, [&] { (void)rank.finish(Values(60)); });
  refusal(kInvalid, [&] { (void)rank.proceed(values, Values(60)); });
  ASSERT_TRUE(rank.proceed(values, Values(40, 1)));
  refusal(kInvalid, [&] { (void)rank.proceed(values, Values(60)); });
  refusal(kInvalid, [&] { (void)rank.finish(Values(40)); });
  refusal(kInvalid, [&] { rank.decode(out); });
  refusal(kInvalid, [&] { rank.decode_own(std::span(out).first(599)); });
  ASSERT_TRUE(rank.finish(Values(60, 1)));
  rank.decode(out);
  refusal(kInvalid, [&] { rank.decode_own(out); });
  LowRank in_turns({.kind = acpsgd, .matrix_rank = 2}, "w", Shape{20, 30});
  ASSERT_TRUE(in_turns.begin(values));
  refusal(kInvalid, [&] { (void)in_turns.proceed(values, Values(40)); });
}

}  // namespace
}  // namespace gradwire::lossy
