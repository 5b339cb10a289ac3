// Learned compression among ranks: whose places, what of them, what becomes of the rest.
#include <algorithm>

#include "lossy_testing.h"

namespace gradwire {
namespace {

using testing::expect_error;
using testing::Floats;
using testing::gradient;
using testing::identity_network;
using testing::TestNetwork;
using testing::World;

const std::vector<LossyTensor> kPair{{"a", {50, 40}}, {"exact", {7}}, {"b", {60, 20}}};
constexpr std::size_t kA = 2000, kExact = 7, kB = 1200;

/// The places of a rank's k largest of `n` values from `first` on.
std::vector<std::size_t> largest(const Floats& values, std::size_t first, std::size_t n,
                                 std::size_t k) {
  std::vector<std::size_t> places(n);
  std::iota(places.begin(), places.end(), first);
  std::ranges::sort(places, std::greater<>(), [&](std::size_t i) { return std::abs(values[i]); });
  places.resize(k);
  std::ranges::sort(places);
  return places;
}

/// Of both tensors at keep=0.01.
std::vector<std::size_t> places_of(const Floats& values) {
  std::vector<std::size_t> places = largest(values, 0, kA, kA / 100);
  std::ranges::copy(largest(values, kA + kExact, kB, kB / 100), std::back_inserter(places));
  return places;
}

TEST(LossyLearned, TheLeadersPlacesGoByTurns) {
  World ranks("lgc(keep=0.01,values=f32,feedback=false,force=true)", 3, kPair);
  for (unsigned step = 0; step < 4; ++step) {
    ranks.step(10 * step);
    const Floats mean = testing::true_mean(ranks.n, 3, 10 * step);
    const auto places = places_of(gradient(ranks.n, 10 * step + step % 3));
    for (std::size_t i = 0; i < ranks.n; ++i) {
      const bool is_sent = (i >= kA && i < kA + kExact) || std::ranges::binary_search(places, i);
      ASSERT_NEAR(ranks.data[0][i], is_sent ? mean[i] : 0, 1e-7) << "step " << step << ", " << i;
    }
  }
}

TEST(LossyLearned, StepsWithoutANetworkLeaveSamples) {
  World ranks("lgc(keep=0.01,values=f32,learn=2)", 2, kPair);
  for (std::uint64_t step = 0; step < 2; ++step) {
    EXPECT_TRUE(ranks.states[0]->wants_samples());
    EXPECT_FALSE(ranks.states[0]->wants_network());
    ranks.step(5 * step);
  }
  EXPECT_TRUE(ranks.states[1]->wants_network());
  const auto samples = ranks.states[0]->take_samples();
  ASSERT_EQ(samples.size(), 1u);  // of the last step alone
  EXPECT_EQ(samples[0].leader, 1u);
  EXPECT_EQ(samples[0].world, 2u);
  const std::size_t places = (kA + kB) / 100;
  ASSERT_EQ(samples[0].values.size(), 2 * places);
  double squares = 0;
  for (std::size_t i = 0; i < places; ++i)
    squares += samples[0].values[places + i] * samples[0].values[places + i];
  EXPECT_NEAR(squares / places, 1, 1e-5);  // the leader's
  EXPECT_EQ(ranks.states[1]->take_samples()[0].values, samples[0].values);
  EXPECT_TRUE(ranks.states[0]->take_samples().empty());

  ranks.step(11);  // goes on as before
  for (const auto& state : ranks.states) state->set_network(identity_network());
  EXPECT_FALSE(ranks.states[0]->wants_samples());
  ranks.step(12);
  EXPECT_TRUE(ranks.states[0]->take_samples().empty());
}

/// With a code that says everything the mean of codes is the mean of the values.
TEST(LossyLearned, TheMeanOfCodesIsDecoded) {
  World ranks("lgc(keep=0.01,learn=0,feedback=false,force=true)", 3, kPair);
  for (unsigned step = 0; step < 3; ++step) {
    ranks.step(10 * step);
    const Floats mean = testing::true_mean(ranks.n, 3, 10 * step);
    const auto places = places_of(gradient(ranks.n, 10 * step + step));
    for (const std::size_t i : places) ASSERT_NEAR(ranks.data[0][i], mean[i], 2e-4);
    std::size_t sent = 0;
    for (std::size_t i = 0; i < ranks.n; ++i) sent += ranks.data[0][i] != 0 ? 1 : 0;
    EXPECT_LE(sent, places.size() + kExact);
  }
}

/// mode=server: the leader's values for all, but for what ranks send by themselves.
TEST(LossyLearned, RanksAddTheirInnovationsToTheLeadersValues) {
  World ranks(
      "lgc(keep=0.01,learn=0,mode=server,innovation=0.002,values=f32,feedback=false,"
      "force=true)",
      3, kPair);
  ranks.step(1);
  const Floats leader = gradient(ranks.n, 1);
  const auto places = places_of(leader);
  const Floats mean = testing::true_mean(ranks.n, 3, 1);
  Floats sum(ranks.n, 0.0F);
  for (unsigned r = 0; r < 3; ++r) {
    const Floats own = gradient(ranks.n, 1 + r);
    Floats part(ranks.n, 0.0F);
    for (const std::size_t i : places) part[i] = leader[i];
    for (const std::size_t i : largest(own, 0, kA, 4)) part[i] = own[i];
    for (const std::size_t i : largest(own, kA + kExact, kB, 3)) part[i] = own[i];
    for (std::size_t i = 0; i < ranks.n; ++i) sum[i] += part[i] / 3;
  }
  for (std::size_t i = 0; i < ranks.n; ++i) {
    const bool is_exact = i >= kA && i < kA + kExact;
    ASSERT_NEAR(ranks.data[0][i], is_exact ? mean[i] : sum[i], 1e-4) << i;
  }
}

/// What is left out comes later: the means of a constant gradient add up to it.
double missing_after_many_steps(const std::string& spec, bool is_shared) {
  World ranks(spec, 2, {{"w", {40, 30}}});
  Floats total(ranks.n, 0.0F), mean(ranks.n, 0.0F);
  constexpr unsigned kSteps = 60;
  for (unsigned step = 0; step < kSteps; ++step) {
    for (unsigned r = 0; r < 2; ++r) ranks.data[r] = gradient(ranks.n, is_shared ? 7 : 7 + r);
    if (step == 0)
      for (std::size_t i = 0; i < ranks.n; ++i) mean[i] = (ranks.data[0][i] + ranks.data[1][i]) / 2;
    ranks.exchange_all({});
    for (const auto& state : ranks.states) state->end_step(true);
    for (std::size_t i = 0; i < ranks.n; ++i) total[i] += ranks.data[0][i] / kSteps;
  }
  return testing::distance(total, mean) / testing::distance(mean, Floats(ranks.n));
}

TEST(LossyLearned, NothingIsLostOverManySteps) {
  EXPECT_LT(missing_after_many_steps("lgc(keep=0.2)", false), 0.05);
  EXPECT_LT(missing_after_many_steps("lgc(keep=0.2,learn=0)", false), 0.05);
  // The leader's values stand for those of all ranks: for gradients that have much in common.
  const char* server = "lgc(keep=0.2,learn=0,mode=server,innovation=0.1)";
  EXPECT_LT(missing_after_many_steps(server, true), 0.05);
}

TEST(LossyLearned, TheNetworkIsPartOfTheState) {
  World ranks("lgc(learn=0)", 2, kPair);
  ranks.step(1);
  World others("lgc(learn=0)", 2, kPair);
  for (unsigned r = 0; r < 2; ++r) {
    others.states[r] = std::make_unique<LossyState>("lgc(learn=0)", r, 2);
    others.states[r]->load(ranks.states[r]->save());
    EXPECT_TRUE(std::ranges::equal(others.states[r]->network(), ranks.states[r]->network()));
  }
  const std::vector<Bytes> saved{ranks.states[0]->save(), ranks.states[1]->save()};
  LossyState wider("lgc(learn=0)", 2, 3);
  wider.load(LossyState::merge(saved, 2, 3));
  EXPECT_FALSE(wider.wants_network());

  LossyState without("lgc(learn=0)", 1, 2);
  const std::vector<Bytes> mixed{saved[0], without.save()};
  testing::refusal(ErrorKind::invalid_argument, [&] { LossyState::merge(mixed, 0, 2); });
}

TEST(LossyLearned, ANetworkThatSomeHaveIsRefusedByAll) {
  for (const bool other : {false, true}) {
    World ranks("lgc(learn=0)", 2, kPair);
    ranks.states[1] = std::make_unique<LossyState>("lgc(learn=0)", 1, 2);
    if (other) ranks.states[1]->set_network(TestNetwork{}.bytes());
    ranks.buckets[1] = LossyBucket(*ranks.states[1], 0, DType::f32, kPair);
    EXPECT_NE(ranks.buckets[0].agreement(), ranks.buckets[1].agreement());
    for (unsigned r = 0; r < 2; ++r) ranks.data[r] = gradient(ranks.n, r);
    ranks.exchange_all({});
    for (const auto& exchange : ranks.exchanges) EXPECT_TRUE(exchange->error());
  }
}

TEST(LossyLearned, RefusesNetworksThatAreNoneAndMethodsThatHaveNone) {
  LossyState state("lgc", 0, 1), other("topk", 0, 1);
  const Bytes sound = identity_network();
  expect_error(ErrorKind::invalid_argument, "topk has none", [&] { other.set_network(sound); });
  EXPECT_FALSE(other.wants_samples());
  state.set_network(sound);
  expect_error(ErrorKind::truncated, "weights",
               [&] { state.set_network(std::span(sound).first(30)); });
  EXPECT_TRUE(std::ranges::equal(state.network(), sound));
}

/// Weights that make more of the values than a float holds: an error on all ranks, and all is kept.
TEST(LossyLearned, ACodeThatIsNotFiniteIsRefused) {
  TestNetwork wild;
  wild.size = 1e18F;
  World ranks("lgc(keep=0.01,learn=0)", 2, kPair);
  for (const auto& state : ranks.states) state->set_network(wild.bytes());
  const std::vector<Bytes> before{ranks.states[0]->save(), ranks.states[1]->save()};
  for (unsigned r = 0; r < 2; ++r) ranks.data[r] = gradient(ranks.n, r);
  ranks.exchange_all({});
  for (const auto& exchange : ranks.exchanges) {
    ASSERT_TRUE(exchange->error());
    EXPECT_NE(std::string(exchange->error()->what()).find("not finite"), std::string::npos);
  }
}

}  // namespace
}  // namespace gradwire
