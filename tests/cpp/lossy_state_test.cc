// What ranks keep of lossy exchanges: nothing is lost, and states survive.
#include "lossy_testing.h"

namespace gradwire {
namespace {

using testing::distance;
using testing::expect_error;
using testing::Floats;
using testing::gradient;
using testing::true_mean;
using testing::World;

TEST(LossyState, WhatIsNotSentIsSentLater) {
  for (const std::string spec : {"topk(keep=0.02)", "topk(keep=0.02,values=f16)"}) {
    const unsigned world = 3;
    World ranks(spec, world);
    Floats applied(ranks.n, 0.0F), wanted(ranks.n, 0.0F);
    for (std::uint64_t step = 0; step < 30; ++step) {
      ranks.step(1000 * step);
      const Floats mean = true_mean(ranks.n, world, 1000 * step);
      for (std::size_t i = 0; i < ranks.n; ++i) {
        applied[i] += ranks.data[0][i];
        wanted[i] += mean[i];
      }
    }
    EXPECT_GT(distance(applied, wanted), 0.1) << spec;
    ranks.data.assign(world, Floats(ranks.n, 0.0F));
    ranks.exchange_all({.keep = 1.0});  // all of what is kept, with its last rounding
    for (std::size_t i = 0; i < ranks.n; ++i) applied[i] += ranks.data[0][i];
    EXPECT_LT(distance(applied, wanted), spec.ends_with("f16)") ? 1e-2 : 1e-5) << spec;
  }
}

TEST(LossyState, StatesOfAnotherNumberOfRanksKeepTheSumOfErrors) {
  const std::string spec = "topk(keep=0.01)";
  World old(spec, 4);
  for (std::uint64_t step = 0; step < 5; ++step) old.step(step);
  std::vector<std::vector<std::uint8_t>> saved;
  for (const auto& state : old.states) saved.push_back(state->save());
  // A step of zeros in which all is sent gives (sum of errors) / W.
  const auto drain = [](World& ranks) {
    ranks.data.assign(ranks.states.size(), Floats(ranks.n, 0.0F));
    ranks.exchange_all({.keep = 1.0});
    Floats sum = ranks.data[0];
    for (float& value : sum) value *= static_cast<float>(ranks.states.size());
    return sum;
  };
  const Floats errors = drain(old);
  for (const unsigned world : {1u, 2u, 3u, 6u}) {
    World fresh(spec, world);
    for (unsigned r = 0; r < world; ++r) fresh.states[r]->load(LossyState::merge(saved, r, world));
    EXPECT_EQ(fresh.states[0]->step(), 5u);
    EXPECT_LT(distance(drain(fresh), errors), 1e-5) << world;
  }
}

TEST(LossyState, StatesAreRefusedWhereTheyDoNotBelong) {
  World ranks("topk(keep=0.01)", 2);
  ranks.step(1);
  const auto saved = ranks.states[0]->save();
  LossyState other("topk(keep=0.02)", 0, 2);
  expect_error(ErrorKind::invalid_argument, "method is 'topk(keep=0.02)'",
               [&] { other.load(saved); });
  expect_error(ErrorKind::invalid_argument, "rank 0 of 2, this is rank 1 of 2",
               [&] { ranks.states[1]->load(saved); });
  LossyState same("topk(keep=0.010)", 0, 2);
  same.load(saved);
  expect_error(ErrorKind::invalid_argument, "weight: shape (3, 3) given, its state has (64, 50)",
               [&] { LossyBucket(same, 0, DType::f32, {{"weight", {3, 3}}}); });
  for (std::size_t size = 0; size < saved.size(); size += 97) {
    LossyState cut("topk(keep=0.01)", 0, 2);
    EXPECT_THROW(cut.load(std::span(saved).first(size)), Error);
  }
}

/// How far the sum of what was applied is from the sum of the true means, after so many steps.
double drift(World& ranks, std::uint64_t first, std::uint64_t steps, Floats& missing) {
  const auto world = static_cast<unsigned>(ranks.states.size());
  missing.resize(ranks.n, 0.0F);
  for (std::uint64_t step = first; step < first + steps; ++step) {
    ranks.step(1000 * step);
    const Floats mean = true_mean(ranks.n, world, 1000 * step);
    for (std::size_t i = 0; i < ranks.n; ++i) missing[i] += mean[i] - ranks.data[0][i];
  }
  return distance(missing, Floats(ranks.n, 0.0F));
}

TEST(LossyState, FeedbackOnBothSidesKeepsWhatIsMissingSmall) {
  Floats missing, without;
  World both("onebit", 3);
  const double early = drift(both, 0, 40, missing);
  EXPECT_LT(drift(both, 40, 120, missing), 1.5 * early);
  World one_sided("onebit(server_feedback=false)", 3);
  EXPECT_GT(drift(one_sided, 0, 160, without), 2 * distance(missing, Floats(both.n, 0.0F)));

  Floats again;
  World moved("onebit", 3);
  drift(moved, 0, 40, again);
  std::vector<std::vector<std::uint8_t>> saved;
  for (const auto& state : moved.states) saved.push_back(state->save());
  // Nor is it lost where there are fewer ranks, and with them other owners.
  World fewer("onebit", 2);
  for (unsigned r = 0; r < 2; ++r) fewer.states[r]->load(LossyState::merge(saved, r, 2));
  for (float& value : again) value *= 1.5F;  // errors are of sums: a mean of 2 has half as much
  EXPECT_LT(drift(fewer, 40, 120, again), 3 * early);
}

TEST(LossyState, ErrorsOfMeansFollowTheirElementsToOtherOwners) {
  const std::vector<LossyTensor> tensors{{"a", {64, 64}}, {"b", {64, 64}}};
  const auto run = [&](bool moves) {
    World ranks("onebit", 2, tensors);
    Floats missing(ranks.n, 0.0F);
    for (std::uint64_t step = 0; step < 120; ++step) {
      const std::size_t turn = moves && step % 2 == 1 ? ranks.n / 2 : 0;  // b before a
      const auto& first = tensors[turn > 0];
      Floats mean(ranks.n, 0.0F);
      for (unsigned r = 0; r < 2; ++r) {
        ranks.buckets[r] =
            LossyBucket(*ranks.states[r], 0, DType::f32, {first, tensors[turn == 0]});
        ranks.data[r] = gradient(ranks.n, 1000 * step + r);
        for (std::size_t i = 0; i < ranks.n; ++i) mean[i] += ranks.data[r][i] / 2;
      }
      ranks.exchange_all({});
      for (const auto& state : ranks.states) state->end_step(true);
      for (std::size_t i = 0; i < ranks.n; ++i)
        missing[(i + turn) % ranks.n] += mean[i] - ranks.data[0][i];
    }
    return distance(missing, Floats(ranks.n, 0.0F));
  };
  EXPECT_LT(run(true), 1.5 * run(false));  // 1.2; 4.6 where a mean's error counts once, not twice
}

TEST(LossyState, ErrorsOfMeansAreNotLostWithAGradientThatIsRefused) {
  for (const std::string spec : {"onebit", "onebit(nan=pass)"}) {
    const std::vector<LossyTensor> tensors{{"a", {64, 64}}, {"b", {64, 64}}};
    World ranks(spec, 2, tensors);
    ranks.step(1);
    const auto before = ranks.states[0]->save();
    // Other owners: the bucket is cut anew, with the tensors the other way round.
    for (unsigned r = 0; r < 2; ++r) {
      ranks.buckets[r] = LossyBucket(*ranks.states[r], 0, DType::f32, {tensors[1], tensors[0]});
      ranks.data[r] = gradient(ranks.n, r);
      for (const std::size_t i : {5u, 5000u}) ranks.data[r][i] = std::nanf("");
    }
    ranks.exchange_all({});
    EXPECT_EQ(ranks.exchanges[0]->error().has_value(), spec == "onebit");
    for (const auto& state : ranks.states) state->end_step(false);
    EXPECT_EQ(ranks.states[0]->save(), before) << spec;
  }
}

TEST(LossyState, StatesOfDifferentStepsOrTensorsAreNotMerged) {
  World ranks("topk", 2);
  const auto merge = [&] {
    return LossyState::merge(std::vector{ranks.states[0]->save(), ranks.states[1]->save()}, 0, 1);
  };
  EXPECT_NO_THROW(merge());
  LossyBucket more(*ranks.states[1], 1, DType::f32, {{"more", {30, 30}}});
  expect_error(ErrorKind::invalid_argument, "rank 1 has 6 tensors after step 0, rank 0 has 5",
               merge);
  LossyState first("topk", 0, 2), second("topk", 1, 2);
  second.end_step(true);
  expect_error(ErrorKind::invalid_argument, "rank 1 has 0 tensors after step 1, rank 0 has 0",
               [&] { LossyState::merge(std::vector{first.save(), second.save()}, 0, 1); });
}

TEST(LossyState, AMomentumThatIsNotFiniteIsRefused) {
  World ranks("dgc", 1, {{"bias", {40}}});
  ranks.step(1);
  auto saved = ranks.states[0]->save();
  LossyState(ranks.states[0]->spec(), 0, 1).load(saved);
  store(&saved[saved.size() - 6], std::nanf(""));  // the last, in front of two empty lists
  expect_error(ErrorKind::corrupt, "momentum", [&] {
    LossyState other("dgc", 0, 1);
    other.load(saved);
    LossyBucket(other, 0, DType::f32, {{"bias", {40}}});
  });
}

TEST(LossyState, ExactTensorsHaveTheMethodsMomentum) {
  for (const bool nesterov : {false, true}) {
    World ranks(nesterov ? "dgc(momentum=0.5,nesterov=true)" : "dgc(momentum=0.5)", 2,
                {{"bias", {40}}});
    for (const float velocity : {1.0F, 1.5F, 1.75F}) {
      ranks.data.assign(2, Floats(40, 1.0F));
      ranks.exchange_all({});
      for (const auto& state : ranks.states) state->end_step(true);
      EXPECT_EQ(ranks.data[0], Floats(40, nesterov ? 0.5F * velocity + 1 : velocity));
    }
  }
}

TEST(LossyState, TheMomentumOfExactTensorsStaysFinite) {
  World ranks("dgc(keep=0.1)", 2, {{"bias", {40}}});
  ranks.step(1);
  for (unsigned r = 0; r < 2; ++r) ranks.data[r] = gradient(ranks.n, r);
  ranks.data[1][7] = std::nanf("");
  ranks.exchange_all({});
  ASSERT_FALSE(ranks.exchanges[0]->error());
  EXPECT_TRUE(std::isnan(ranks.data[0][7]));
  for (const auto& state : ranks.states) state->end_step(true);
  ranks.step(2);
  for (const float value : ranks.data[0]) EXPECT_TRUE(std::isfinite(value));
}

TEST(LossyState, AStepThatWasNotAppliedLeavesTheMomentumOfExactTensors) {
  const auto run = [](bool fails) {
    World ranks("dgc(keep=0.1)", 2, {{"bias", {40}}});
    ranks.step(1);
    if (fails) {
      for (unsigned r = 0; r < 2; ++r) ranks.data[r] = gradient(ranks.n, r);
      ranks.exchange_all({});
      for (const auto& state : ranks.states) state->end_step(false);
    }
    ranks.step(2);
    return std::pair(ranks.data[0], ranks.states[0]->save());
  };
  EXPECT_EQ(run(true), run(false));
}

}  // namespace
}  // namespace gradwire
