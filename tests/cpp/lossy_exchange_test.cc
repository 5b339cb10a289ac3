// Lossy means of all ranks in one process: the same bits everywhere, nothing lost, state that
// survives.
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "base/counter_random.h"
#include "error_testing.h"
#include "exchange/loopback.h"
#include "gradwire/lossy.h"
#include "gradwire/methods.h"
#include "lossy/codec/body.h"
#include "lossy/method/recipe.h"

namespace gradwire {
namespace {

using exchange::Loopback;
using Floats = std::vector<float>;

template <typename Call>
void expect_error(ErrorKind kind, std::string_view words, const Call& call) {
  const std::string message = testing::refusal(kind, call);
  EXPECT_NE(message.find(words), std::string::npos) << message;
}

const std::vector<LossyTensor> kTensors{
    {"embedding", {300, 40}}, {"bias", {40}}, {"weight", {64, 50}}, {"scale", {}}, {"one", {1, 1}}};

std::size_t count(const std::vector<LossyTensor>& tensors) {
  std::size_t total = 0;
  for (const LossyTensor& tensor : tensors)
    total += std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::size_t{1},
                             std::multiplies<>());
  return total;
}

Floats gradient(std::size_t n, std::uint64_t seed) {
  Floats values(n);
  for (std::size_t i = 0; i < n; ++i) {
    const float u = random_unit(RandomKey(seed, 0), static_cast<std::uint32_t>(i)) - 0.5F;
    values[i] = u * u * u;
  }
  return values;
}

/// All ranks of a method, one bucket each.
struct World {
  World(const std::string& spec, unsigned world, const std::vector<LossyTensor>& tensors = kTensors)
      : n(count(tensors)), data(world) {
    for (unsigned r = 0; r < world; ++r) {
      states.push_back(std::make_unique<LossyState>(spec, r, world));
      buckets.emplace_back(*states[r], 0, DType::f32, tensors);
    }
  }

  /// The mean of every rank's gradient; of rank r it is gradient(n, seed + r).
  void step(std::uint64_t seed, const LossyStep& facts = {}) {
    for (unsigned r = 0; r < states.size(); ++r) data[r] = gradient(n, seed + r);
    exchange_all(facts);
    for (const auto& exchange : exchanges) {
      ASSERT_FALSE(exchange->error()) << exchange->error()->what();
    }
    for (unsigned r = 1; r < states.size(); ++r) ASSERT_EQ(data[r], data[0]) << "rank " << r;
    for (const auto& state : states) state->end_step(true);
  }

  void exchange_all(const LossyStep& facts) {
    exchanges.clear();
    std::vector<Exchange*> pointers;
    for (unsigned r = 0; r < states.size(); ++r) {
      std::span<std::uint8_t> bytes(reinterpret_cast<std::uint8_t*>(data[r].data()), 4 * n);
      exchanges.push_back(
          buckets[r].reduce(bytes, static_cast<std::uint32_t>(states[r]->step()), facts));
      pointers.push_back(exchanges.back().get());
    }
    Loopback(pointers, 1).run();
  }

  std::size_t n;
  std::vector<std::unique_ptr<LossyState>> states;
  std::vector<LossyBucket> buckets;
  std::vector<Floats> data;
  std::vector<std::unique_ptr<Exchange>> exchanges;
};

Floats true_mean(std::size_t n, unsigned world, std::uint64_t seed) {
  Floats mean(n, 0.0F);
  for (unsigned r = 0; r < world; ++r) {
    const Floats one = gradient(n, seed + r);
    for (std::size_t i = 0; i < n; ++i) mean[i] += one[i] / static_cast<float>(world);
  }
  return mean;
}

double distance(const Floats& a, const Floats& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

class EveryMethod : public ::testing::TestWithParam<std::string_view> {};

TEST_P(EveryMethod, GivesAllRanksTheSameBits) {
  for (const unsigned world : {1u, 2u, 3u, 5u}) {
    World ranks{std::string(GetParam()), world};
    for (std::uint64_t step = 0; step < 4; ++step) ranks.step(100 * step);
    for (const float value : ranks.data[0]) ASSERT_TRUE(std::isfinite(value));
  }
}

TEST_P(EveryMethod, GoesOnFromASavedStateAsIfNothingHadHappened) {
  World through(std::string(GetParam()), 2);
  World before(std::string(GetParam()), 2);
  for (std::uint64_t step = 0; step < 3; ++step) {
    through.step(step * 10);
    before.step(step * 10);
  }
  World after(std::string(GetParam()), 2);
  for (unsigned r = 0; r < 2; ++r) after.states[r]->load(before.states[r]->save());
  for (std::uint64_t step = 3; step < 6; ++step) {
    through.step(step * 10);
    after.step(step * 10);
    EXPECT_EQ(through.data[0], after.data[0]);
  }
  EXPECT_EQ(through.states[1]->save(), after.states[1]->save());
}

TEST_P(EveryMethod, TakesZeros) {
  World ranks(std::string(GetParam()), 2);
  for (Floats& values : ranks.data) values.assign(ranks.n, 0.0F);
  ranks.exchange_all({});
  for (unsigned r = 0; r < 2; ++r) {
    ASSERT_FALSE(ranks.exchanges[r]->error());
    for (const float value : ranks.data[r]) ASSERT_EQ(value, 0.0F);
  }
}

TEST_P(EveryMethod, RefusesWhatIsNotFiniteOnAllRanksAndLosesNothing) {
  World ranks(std::string(GetParam()), 3, {{"weight", {64, 50}}});
  World clean(std::string(GetParam()), 3, {{"weight", {64, 50}}});
  ranks.step(5);
  clean.step(5);
  for (unsigned r = 0; r < 3; ++r) ranks.data[r] = gradient(ranks.n, r);
  ranks.data[1][77] = std::nanf("");
  ranks.exchange_all({});
  for (unsigned r = 0; r < 3; ++r) ASSERT_TRUE(ranks.exchanges[r]->error()) << "rank " << r;
  EXPECT_NE(std::string(ranks.exchanges[1]->error()->what()).find("weight: element 77"),
            std::string::npos)
      << ranks.exchanges[1]->error()->what();
  EXPECT_EQ(ranks.exchanges[1]->error()->kind(), ErrorKind::invalid_argument);
  for (unsigned r = 0; r < 3; ++r) {
    ranks.states[r]->end_step(false);
    ranks.buckets[r].reset();
  }
  EXPECT_EQ(ranks.states[1]->save(), clean.states[1]->save());
  ranks.step(9);
}

std::vector<std::string_view> names() {
  std::vector<std::string_view> list;
  for (const Method& method : lossy::recipes()) list.push_back(method.name);
  return list;
}

INSTANTIATE_TEST_SUITE_P(Methods, EveryMethod, ::testing::ValuesIn(names()),
                         [](const auto& method) { return std::string(method.param); });

TEST(LossyExchange, WhatIsNotSentIsSentLater) {
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

TEST(LossyExchange, StatesOfAnotherNumberOfRanksKeepTheSumOfErrors) {
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

TEST(LossyExchange, StatesAreRefusedWhereTheyDoNotBelong) {
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

TEST(LossyExchange, FeedbackOnBothSidesKeepsWhatIsMissingSmall) {
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

TEST(LossyExchange, TheMajorityOfSignsCounts) {
  World ranks("sign(dense_vectors=false)", 3, {{"w", {4}}});
  ranks.data = {{1, 1, -1, -2}, {1, -1, -1, 4}, {1, -4, 2, 4}};
  ranks.exchange_all({});
  // The ranks' mean magnitudes are 5/4, 7/4, 11/4.
  for (const Floats& values : ranks.data) {
    EXPECT_GT(values[0], 0);
    EXPECT_LT(values[1], 0);
    EXPECT_LT(values[2], 0);
    EXPECT_GT(values[3], 0);
    for (const float value : values) EXPECT_NEAR(std::abs(value), 23.0 / 12, 1e-6);
  }
}

TEST(LossyExchange, NarrowBucketsAreRoundedAlike) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const std::string spec : {"topk(keep=0.1)", "qsgd(way=two_shot)", "efsign"}) {
      std::vector<std::unique_ptr<LossyState>> states;
      std::vector<LossyBucket> buckets;
      std::vector<Bytes> data(3, Bytes(2 * count(kTensors)));
      std::vector<std::unique_ptr<Exchange>> exchanges;
      std::vector<Exchange*> pointers;
      for (unsigned r = 0; r < 3; ++r) {
        const Floats values = gradient(count(kTensors), r);
        for (std::size_t i = 0; i < values.size(); ++i)
          store(&data[r][2 * i], lossy::to_half(values[i], dtype));
        states.push_back(std::make_unique<LossyState>(spec, r, 3));
        buckets.emplace_back(*states[r], 0, dtype, kTensors);
        exchanges.push_back(buckets[r].reduce(data[r], 0));
        pointers.push_back(exchanges[r].get());
      }
      Loopback(pointers, 1).run();
      EXPECT_FALSE(exchanges[0]->error());
      EXPECT_EQ(data[0], data[1]);
      EXPECT_EQ(data[0], data[2]);
    }
  }
}

TEST(LossyExchange, RanksThatDisagreeFailInsteadOfMixing) {
  std::vector<std::unique_ptr<LossyState>> states;
  std::vector<LossyBucket> buckets;
  std::vector<Floats> data(2, Floats(count(kTensors), 1.0F));
  std::vector<std::unique_ptr<Exchange>> exchanges;
  std::vector<Exchange*> pointers;
  for (unsigned r = 0; r < 2; ++r) {
    states.push_back(
        std::make_unique<LossyState>(r == 0 ? "topk(keep=0.01)" : "topk(keep=0.02)", r, 2));
    buckets.emplace_back(*states[r], 0, DType::f32, kTensors);
    exchanges.push_back(buckets[r].reduce(
        {reinterpret_cast<std::uint8_t*>(data[r].data()), 4 * data[r].size()}, 0));
    pointers.push_back(exchanges[r].get());
  }
  Loopback(pointers, 1).run();
  for (const auto& exchange : exchanges) EXPECT_TRUE(exchange->error());
}

TEST(LossyExchange, TheScheduleAndTheStartAreKept) {
  World ranks("topk(keep=0.01,start=1,warmup=4,schedule=0.5/0.25)", 2, {{"weight", {100, 100}}});
  std::vector<std::uint64_t> selected;
  for (std::uint64_t step = 0; step < 6; ++step) {
    ranks.step(step);
    selected.push_back(ranks.exchanges[0]->stats().lossy.selected);
  }
  EXPECT_EQ(selected, (std::vector<std::uint64_t>{0, 5000, 5000, 2500, 2500, 100}));
}

TEST(LossyExchange, TensorsMayGoExactlyBesideTheMethod) {
  const std::vector<LossyTensor> tensors{{"sent", {50, 40}}, {"kept", {30, 20}, true}};
  World ranks("topk(keep=0.05)", 3, tensors);
  for (std::uint64_t step = 0; step < 3; ++step) {
    ranks.step(10 * step);
    const Floats mean = true_mean(ranks.n, 3, 10 * step);
    for (std::size_t i = 2000; i < ranks.n; ++i) ASSERT_NEAR(ranks.data[0][i], mean[i], 1e-7);
    EXPECT_EQ(ranks.exchanges[0]->stats().lossy.elements, 2000u);
    EXPECT_EQ(ranks.exchanges[0]->stats().lossy.asked, 100u);
  }
  std::vector<std::vector<std::uint8_t>> saved;
  for (const auto& state : ranks.states) saved.push_back(state->save());
  World fewer("topk(keep=0.05)", 2, tensors);
  for (unsigned r = 0; r < 2; ++r) fewer.states[r]->load(LossyState::merge(saved, r, 2));
  fewer.step(50);

  LossyState other("topk(keep=0.05)", 0, 3);
  other.load(saved[0]);
  expect_error(ErrorKind::invalid_argument, "kept: it goes by the method now",
               [&] { LossyBucket(other, 0, DType::f32, {{"kept", {30, 20}}}); });
  expect_error(ErrorKind::invalid_argument, "sent: it goes exactly now",
               [&] { LossyBucket(*ranks.states[0], 1, DType::f32, {{"sent", {50, 40}, true}}); });
}

TEST(LossyExchange, AStepThatWasNotAppliedLeavesTheMomentumOfExactTensors) {
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

TEST(LossyExchange, TellsWhatRanksMustShare) {
  LossyState state("topk(keep=0.020)", 1, 3);
  const LossyBucket bucket(state, 0, DType::bf16, kTensors);
  EXPECT_EQ(bucket.rank(), 1u);
  EXPECT_EQ(bucket.world(), 3u);
  const std::string text = bucket.agreement({.keep = 0.5});
  for (const char* line : {"method topk(keep=0.02)\n", "ranks 3\n", "dtype bf16\n", "step 0\n",
                           "keep 0.5\n", "tensors 5, hash "})
    EXPECT_NE(text.find(line), std::string::npos) << text;
  std::vector<LossyTensor> exact = kTensors;
  exact[0].exact = true;
  LossyState same("topk(keep=0.02)", 1, 3);
  EXPECT_NE(LossyBucket(same, 0, DType::bf16, exact).agreement(), bucket.agreement());
  EXPECT_TRUE(LossyState::accepts("topk(keep=2)"));
  for (const char* spec : {"lossless", "none", "", "topkk"})
    EXPECT_FALSE(LossyState::accepts(spec)) << spec;
}

TEST(LossyExchange, NotFiniteValuesPassWhereTheyMay) {
  World ranks("topk(keep=0.01,nan=pass)", 2, {{"weight", {64, 50}}});
  for (unsigned r = 0; r < 2; ++r) ranks.data[r] = gradient(ranks.n, r);
  ranks.data[1][77] = std::nanf("");
  ranks.exchange_all({});
  for (unsigned r = 0; r < 2; ++r) {
    ASSERT_FALSE(ranks.exchanges[r]->error());
    EXPECT_TRUE(std::isnan(ranks.data[r][77]));
  }
}

TEST(LossyExchange, MeansAreNearTheTruth) {
  struct Case {
    const char* spec;
    double error;  ///< of the mean, over its norm
  };
  const std::vector<LossyTensor> tensors{{"weight", {250, 400}}};
  for (const Case& one :
       {Case{"thc(rotation=0)", 0.2}, Case{"thc", 0.2}, Case{"qsgd(levels=127)", 0.01},
        Case{"qgz(bits=8)", 0.02}, Case{"lhc(keep=1,bits=20)", 1e-5}, Case{"cast", 0.004},
        Case{"natural", 0.35}, Case{"terngrad(clip=0)", 2.0}, Case{"powersgd(start=1)", 1e-6},
        Case{"randomk(keep=0.5)", 1.1}}) {
    World ranks(one.spec, 4, tensors);
    ranks.step(3);
    const Floats mean = true_mean(ranks.n, 4, 3);
    EXPECT_LT(distance(ranks.data[0], mean), one.error * distance(mean, Floats(ranks.n, 0.0F)))
        << one.spec;
  }
}

TEST(LossyExchange, ManyRanksAndFewElements) {
  World ranks("dgc(keep=1)", 8, {{"weight", {2, 1}}});
  ranks.step(3);
  World more("topk(keep=0.001)", 8, {{"weight", {1, 3}}, {"empty", {0, 4}}});
  more.step(3);
}

TEST(LossyExchange, CountsWhatItSends) {
  World ranks("dgc(keep=0.001)", 2, {{"weight", {1000, 1000}}});
  ranks.step(3);
  const ExchangeStats& stats = ranks.exchanges[0]->stats();
  EXPECT_GE(stats.lossy.selected, 800u);
  EXPECT_LE(stats.lossy.selected, 1300u);
  EXPECT_EQ(stats.to_owners.payload,
            stats.lossy.index + stats.lossy.values + stats.lossy.frames + 2);
  const double bits = 8.0 * static_cast<double>(stats.to_owners.payload) /
                      static_cast<double>(stats.lossy.selected);
  EXPECT_LE(bits, 30.0);  // 48 in the paper
}

}  // namespace
}  // namespace gradwire
