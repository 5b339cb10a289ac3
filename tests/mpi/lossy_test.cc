// Lossy means over MPI give the bits that all ranks in one process give each other.
#include <cmath>

#include "base/counter_random.h"
#include "exchange/loopback.h"
#include "learned_testing.h"
#include "mpi_testing.h"

namespace gradwire::testing {
namespace {

using Floats = std::vector<float>;

const std::vector<LossyTensor> kTensors{
    {"table", {120, 40}}, {"kept", {30, 20}, true}, {"bias", {40}}, {"weight", {64, 50}}};
constexpr std::size_t kElements = 120 * 40 + 30 * 20 + 40 + 64 * 50;
const char* const kSpecs[] = {"dgc(keep=0.01)",
                              "topk(keep=0.02,values=int8)",
                              "randomk(keep=0.1)",
                              "qsgd",
                              "sign",
                              "efsign",
                              "onebit",
                              "gennorm",
                              "thc",
                              "lhc",
                              "powersgd",
                              "acpsgd",
                              "lgc",
                              "lgc(learn=0)",
                              "lgc(learn=0,mode=server)"};

Floats gradient(std::uint64_t seed) {
  Floats values(kElements);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float u = random_unit(RandomKey(seed, 0), static_cast<std::uint32_t>(i)) - 0.5F;
    values[i] = u * u * u;
  }
  return values;
}

/// What a rank trains with.
struct Rank {
  LossyState state;
  LossyBucket bucket;
  Floats data = {};

  Rank(const std::string& spec, unsigned rank, const std::vector<LossyTensor>& tensors = kTensors)
      : state(spec, rank, world_size()), bucket(state, 3, DType::f32, tensors) {
    if (state.wants_network()) state.set_network(identity_network());
  }
  std::unique_ptr<Exchange> start(const LossyStep& facts) {
    return bucket.reduce({reinterpret_cast<std::uint8_t*>(data.data()), 4 * data.size()}, 0, facts);
  }
  ExchangeStats run(const LossyStep& facts = {}, MPI_Comm comm = MPI_COMM_WORLD) {
    return mpi::allreduce(bucket, data.data(), comm, facts);
  }
};

/// All ranks in this process.
struct Reference {
  std::vector<std::unique_ptr<Rank>> ranks;

  explicit Reference(const std::string& spec) {
    for (unsigned r = 0; r < world_size(); ++r) ranks.push_back(std::make_unique<Rank>(spec, r));
  }
  const Floats& step(std::uint64_t seed, const LossyStep& facts = {}) {
    std::vector<std::unique_ptr<Exchange>> exchanges;
    std::vector<Exchange*> pointers;
    for (unsigned r = 0; r < ranks.size(); ++r) {
      ranks[r]->data = gradient(seed + r);
      exchanges.push_back(ranks[r]->start(facts));
      pointers.push_back(exchanges.back().get());
    }
    exchange::Loopback(pointers, seed).run();
    for (const auto& exchange : exchanges) EXPECT_FALSE(exchange->error());
    for (const auto& rank : ranks) rank->state.end_step(true);
    return ranks[0]->data;
  }
};

TEST(LossyAllreduce, HasTheBitsOfLoopback) {
  for (const std::string spec : kSpecs) {
    Reference reference(spec);
    Rank own(spec, world_rank());
    for (std::uint64_t step = 0; step < 5; ++step) {
      const LossyStep facts{.keep = step == 3 ? std::optional(0.05) : std::nullopt,
                            .learning_rate_ratio = step == 2 ? 2.0F : 1.0F};
      own.data = gradient(100 * step + world_rank());
      own.run(facts);
      own.state.end_step(true);
      EXPECT_TRUE(own.data == reference.step(100 * step, facts)) << spec << ", step " << step;
    }
    EXPECT_TRUE(own.state.save() == reference.ranks[world_rank()]->state.save()) << spec;
  }
}

TEST(LossyAllreduce, RunsBesideExactOnesAndCountsWhatItSends) {
  Rank own("topk(keep=0.02)", world_rank());
  Reference reference("topk(keep=0.02)");
  own.data = gradient(world_rank());
  const Problem exact(DType::bf16, 3000, {}, 50);
  Bytes buffer = exact.input;
  mpi::Request first = exact.start(buffer.data());
  mpi::Request second = mpi::iallreduce(own.bucket, own.data.data(), MPI_COMM_WORLD);
  second.wait();
  first.wait();
  EXPECT_TRUE(buffer == exact.expected);
  EXPECT_TRUE(own.data == reference.step(0));
  const LossyBytes& lossy = second.stats().lossy;
  EXPECT_EQ(lossy.elements, 120u * 40 + 64 * 50);
  EXPECT_EQ(lossy.selected, 96u + 64);  // 2 % of each
  EXPECT_EQ(lossy.asked, lossy.selected);
  EXPECT_GT(lossy.exact, 600u * 2);
  if (world_size() == 2) {
    EXPECT_GT(second.stats().to_owners.payload,
              lossy.index + lossy.values + lossy.frames + lossy.exact);
  }
}

TEST(LossyAllreduce, GoesOnAfterAGradientThatIsNotFinite) {
  const unsigned bad = world_size() - 1;
  Rank own("dgc(keep=0.01)", world_rank());
  const auto step = [&](std::uint64_t seed) {
    own.data = gradient(seed + world_rank());
    own.run();
    own.state.end_step(true);
  };
  step(1);
  own.data = gradient(world_rank());
  if (world_rank() == bad) own.data[kElements - 5] = std::nanf("");
  const std::string text = common_error(ErrorKind::invalid_argument, [&] { own.run(); });
  EXPECT_THAT(text, ::testing::HasSubstr("weight: element 3195"));
  own.state.end_step(false);
  for (std::uint64_t seed = 2; seed < 6; ++seed) {
    step(100 * seed);
    Floats first = own.data;
    MPI_Bcast(first.data(), static_cast<int>(first.size()), MPI_FLOAT, 0, MPI_COMM_WORLD);
    EXPECT_TRUE(own.data == first) << "ranks have other means";
  }
  EXPECT_EQ(own.state.step(), 5u);
}

TEST(LossyAllreduce, DemandsOneCallOfAllRanks) {
  if (world_size() == 1) return;
  const bool last = world_rank() == world_size() - 1;
  Rank keep("topk(keep=0.02)", world_rank());
  Rank method(last ? "topk(keep=0.03)" : "topk(keep=0.02)", world_rank());
  Rank names("topk(keep=0.02)", world_rank(), {{last ? "a" : "b", {kElements}}});
  for (Rank* rank : {&keep, &method, &names}) rank->data = gradient(1);
  const auto refused = [](const char* words, const auto& call) {
    EXPECT_THAT(common_error(ErrorKind::transport, call), ::testing::HasSubstr(words));
  };
  refused("`keep 0.5` on rank",
          [&] { keep.run({.keep = last ? std::optional(0.5) : std::nullopt}); });
  refused("method topk(keep=0.02)", [&] { method.run(); });
  refused("tensors 1, hash", [&] { names.run(); });
  if (last) keep.state.end_step(true);
  refused("`step 0` on rank 0, `step 1`", [&] { keep.run(); });
}

TEST(LossyAllreduce, RefusesAStateOfAnotherRankAndNoMemory) {
  Rank own("topk(keep=0.02)", world_rank());
  own.data = gradient(1);
  MPI_Comm reversed = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -static_cast<int>(world_rank()), &reversed);
  if (world_size() > 1) {
    const std::string text =
        common_error(ErrorKind::invalid_argument, [&] { own.run({}, reversed); });
    EXPECT_THAT(text, ::testing::HasSubstr("its state is that of rank"));
  }
  MPI_Comm_free(&reversed);
  const std::string text = common_error(
      ErrorKind::invalid_argument, [&] { mpi::allreduce(own.bucket, nullptr, MPI_COMM_WORLD); });
  EXPECT_THAT(text, ::testing::HasSubstr("a null pointer given"));
}

}  // namespace
}  // namespace gradwire::testing
