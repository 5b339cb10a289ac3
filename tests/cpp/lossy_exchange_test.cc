// Lossy means of all ranks in one process: the same bits everywhere, near the truth.
#include "gradwire/methods.h"
#include "lossy/codec/elements.h"
#include "lossy/method/recipe.h"
#include "lossy_testing.h"

namespace gradwire {
namespace {

using testing::count;
using testing::distance;
using testing::expect_error;
using testing::Floats;
using testing::gradient;
using testing::kTensors;
using testing::Loopback;
using testing::true_mean;
using testing::World;

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
  list.insert(list.end(), {"lgc(learn=0)", "lgc(learn=0,mode=server)"});
  return list;
}

INSTANTIATE_TEST_SUITE_P(Methods, EveryMethod, ::testing::ValuesIn(names()),
                         [](const auto& method) {
                           std::string name(method.param);
                           std::ranges::replace_if(
                               name, [](char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

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
        lossy::from_floats(values, dtype, data[r]);
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
  const std::pair<const char*, const char*> kOthers[] = {
      {"topk(keep=0.01)", "topk(keep=0.02)"}, {"qgz", "qgz(bits=8)"},
      {"thc", "thc(clipped=0.01)"},           {"lhc", "lhc(keep=0.02)"},
      {"powersgd", "powersgd(decay=0.5)"},    {"lgc", "lgc(keep=0.002)"},
  };
  for (const auto& [ours, theirs] : kOthers) {
    std::vector<std::unique_ptr<LossyState>> states;
    std::vector<LossyBucket> buckets;
    std::vector<Floats> data(2, Floats(count(kTensors), 1.0F));
    std::vector<std::unique_ptr<Exchange>> exchanges;
    std::vector<Exchange*> pointers;
    for (unsigned r = 0; r < 2; ++r) {
      states.push_back(std::make_unique<LossyState>(r == 0 ? ours : theirs, r, 2));
      buckets.emplace_back(*states[r], 0, DType::f32, kTensors);
      exchanges.push_back(buckets[r].reduce(
          {reinterpret_cast<std::uint8_t*>(data[r].data()), 4 * data[r].size()}, 0));
      pointers.push_back(exchanges[r].get());
    }
    Loopback(pointers, 1).run();
    for (const auto& exchange : exchanges) EXPECT_TRUE(exchange->error()) << ours;
  }
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
  EXPECT_TRUE(is_lossy_method("topk(keep=2)"));
  for (const char* spec : {"lossless", "none", "", "topkk"})
    EXPECT_FALSE(is_lossy_method(spec)) << spec;
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

  World factors("powersgd(matrix_rank=2)", 2, {{"weight", {100, 40}}});
  factors.step(3);
  EXPECT_EQ(factors.exchanges[0]->stats().lossy.values, 4u * 2 * (100 + 40));
}

}  // namespace
}  // namespace gradwire
