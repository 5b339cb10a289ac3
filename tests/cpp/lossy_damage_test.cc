// Lossy exchanges whose messages are damaged on the way: nobody hangs, and no rank goes on with
// other values than the others without an error.
#include <random>

#include "lossy_testing.h"

namespace gradwire {
namespace {

using testing::gradient;
using testing::Loopback;
using testing::World;

const std::vector<LossyTensor> kTensors{{"a", {70, 30}}, {"b", {30}}, {"c", {50, 40}}};

/// Runs a step of all ranks in which one message is damaged; the ranks that have seen an error.
unsigned run_damaged(World& ranks, std::uint64_t step, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  ranks.exchanges.clear();
  std::vector<Exchange*> pointers;
  for (unsigned r = 0; r < ranks.states.size(); ++r) {
    ranks.data[r] = gradient(ranks.n, 10 * step + r);
    std::span<std::uint8_t> bytes(reinterpret_cast<std::uint8_t*>(ranks.data[r].data()),
                                  4 * ranks.n);
    ranks.exchanges.push_back(ranks.buckets[r].reduce(bytes, static_cast<std::uint32_t>(step)));
    pointers.push_back(ranks.exchanges.back().get());
  }
  const std::uint64_t damaged = random() % 10;
  const unsigned to = static_cast<unsigned>(random() % ranks.states.size());
  bool is_done = false;
  Loopback(pointers, seed,
           [&](std::uint64_t at, unsigned, unsigned receiver, std::vector<std::uint8_t>& bytes) {
             if (is_done || at != damaged || receiver != to || bytes.empty()) return;
             const std::size_t place = random() % bytes.size();
             bytes[place] ^= static_cast<std::uint8_t>(1u << (random() % 8));
             is_done = true;
           })
      .run();
  unsigned failed = 0;
  bool is_lost = false;  // then the connections are broken, and its peers are cancelled
  for (const auto& exchange : ranks.exchanges) is_lost |= exchange->lost();
  for (const auto& exchange : ranks.exchanges) {
    EXPECT_TRUE(exchange->done() || is_lost);
    failed += exchange->error().has_value();
  }
  return failed;
}

class Damage : public ::testing::TestWithParam<const char*> {};

TEST_P(Damage, IsSeenOrHarmlessAndTheNextStepGoesOn) {
  World ranks(GetParam(), 3, kTensors);
  unsigned seen = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const unsigned failed = run_damaged(ranks, seed, seed);
    seen += failed > 0;
    if (failed == 0) {
      EXPECT_EQ(ranks.data[1], ranks.data[0]);
      EXPECT_EQ(ranks.data[2], ranks.data[0]);
    }
    for (unsigned r = 0; r < 3; ++r) {
      ranks.states[r]->end_step(failed == 0);
      ranks.buckets[r].reset();
    }
  }
  EXPECT_GT(seen, 10u);  // of those ways that have the fewest steps
  ranks.step(1000);
}

INSTANTIATE_TEST_SUITE_P(Ways, Damage,
                         ::testing::Values("dgc(keep=0.05)", "qsgd", "onebit", "qgz", "thc", "lhc",
                                           "lhc(cells=0)", "powersgd", "acpsgd", "lgc",
                                           "lgc(learn=0)", "lgc(learn=0,mode=server)"));

/// The last step of a sketch's index: a single rank may see an error there, and the payload's
/// length is not known to it.
TEST(LossyFailure, ARankWithoutAnIndexDoesNotLetTheOthersWait) {
  World ranks("lhc", 3, {{"a", {70, 30}}});
  std::vector<Exchange*> pointers;
  for (unsigned r = 0; r < 3; ++r) {
    ranks.data[r] = gradient(ranks.n, r);
    std::span<std::uint8_t> bytes(reinterpret_cast<std::uint8_t*>(ranks.data[r].data()),
                                  4 * ranks.n);
    ranks.exchanges.push_back(ranks.buckets[r].reduce(bytes, 0));
    pointers.push_back(ranks.exchanges.back().get());
  }
  constexpr std::uint64_t kLastOfIndex = 3;  // magnitudes and their end, the index and its end
  Loopback(pointers, 1, [](std::uint64_t at, unsigned, unsigned to, auto& bytes) {
    if (at == kLastOfIndex && to == 1) bytes[4] ^= 1;  // as if a rank had failed
  }).run();
  EXPECT_TRUE(ranks.exchanges[1]->lost());
  for (const auto& exchange : ranks.exchanges) EXPECT_TRUE(exchange->error());
}

TEST(LossyFailure, ARankThatGivesUpTakesTheOthersWithIt) {
  for (const char* spec :
       {"topk", "onebit", "thc", "lhc", "powersgd", "acpsgd", "lgc", "lgc(learn=0)"}) {
    World ranks(spec, 3, kTensors);
    ranks.step(1);
    for (unsigned r = 0; r < 3; ++r) ranks.data[r] = gradient(ranks.n, r);
    std::vector<Exchange*> pointers;
    ranks.exchanges.clear();
    for (unsigned r = 0; r < 3; ++r) {
      std::span<std::uint8_t> bytes(reinterpret_cast<std::uint8_t*>(ranks.data[r].data()),
                                    4 * ranks.n);
      ranks.exchanges.push_back(ranks.buckets[r].reduce(bytes, 1));
      pointers.push_back(ranks.exchanges.back().get());
    }
    pointers[2]->cancel(ErrorKind::limit, "out of memory");
    Loopback(pointers, 3).run();
    for (const auto& exchange : ranks.exchanges) {
      EXPECT_TRUE(exchange->done()) << spec;
      EXPECT_TRUE(exchange->error()) << spec;
    }
  }
}

}  // namespace
}  // namespace gradwire
