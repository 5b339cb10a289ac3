// two_shot with servers: workers push, servers add, workers pull. Bit by bit what the workers alone
// would have, and an end for every rank whatever happens.

#include "exchange/wire.h"
#include "exchange_testing.h"

namespace gradwire::testing {
namespace {

using Roles = std::vector<Role>;
constexpr Role kWorker = Role::worker, kServer = Role::server, kBoth = Role::both;

/// Ranks with roles; what is expected follows from the workers' values.
struct Served : Ranks {
  Roles roles;
  Served(DType type, std::vector<BucketTensor> shapes, const Roles& given, ExchangeOptions chosen)
      : Ranks(type, std::move(shapes), static_cast<unsigned>(given.size()),
              (chosen.roles = given, chosen)),
        roles(given) {}
  bool works(std::size_t rank) const { return roles[rank] != kServer; }
  void begin(std::uint32_t step) {
    fill(step);
    std::vector<Bytes> given;
    for (std::size_t r = 0; r < roles.size(); ++r)
      if (works(r)) given.push_back(data[r]);
    expected = reference(dtype, given, options.order, options.mean);
    start(false, step);
  }
  /// Workers have everything, a mere server its own run of the bucket.
  void expect_served(bool only_server) const {
    for (std::size_t r = 0; r < roles.size(); ++r) {
      ASSERT_TRUE(exchanges[r]->done());
      ASSERT_FALSE(exchanges[r]->error()) << exchanges[r]->error()->what();
      if (works(r) || only_server) {
        ASSERT_TRUE(data[r] == expected) << "rank " << r << " has other bits";
      }
    }
  }
  /// Done with the right bits or failed; the number of failed ones.
  std::size_t expect_ends() const {
    std::size_t errors = 0;
    for (std::size_t r = 0; r < roles.size(); ++r) {
      if (exchanges[r]->error()) {
        ++errors;
      } else {
        EXPECT_TRUE(exchanges[r]->done()) << "rank " << r << " waits";
        EXPECT_TRUE(!works(r) || data[r] == expected) << "rank " << r << " is silently wrong";
      }
    }
    return errors;
  }
};

/// One server before or behind its workers, one that works too, two servers, all of both.
std::vector<Roles> layouts(unsigned world) {
  if (world == 1) return {{kBoth}};
  Roles first(world, kWorker), last(world, kWorker), working(world, kWorker), two(world, kWorker);
  first.front() = kServer;
  last.back() = kServer;
  working[world / 2] = kBoth;
  std::vector<Roles> all = {first, last, working, Roles(world, kBoth)};
  if (world < 3) return all;
  two[0] = kServer;
  two[2] = world % 2 == 0 ? kServer : kBoth;
  all.push_back(two);
  return all;
}

class Server : public ::testing::TestWithParam<unsigned> {};

TEST_P(Server, GivesTheBitsOfTheWorkersAlone) {
  std::uint64_t seed = GetParam();
  for (const std::uint64_t n : {0, 1, 7, 1000}) {
    for (const Roles& roles : layouts(GetParam())) {
      ++seed;
      std::mt19937_64 random(seed);
      ExchangeOptions options{.order = seed % 4 == 0 ? SumOrder::gloo : SumOrder::rank,
                              .mean = seed % 3 != 0,
                              .piece_elements = n == 7 ? 3u : 100u};
      options.compress.level = static_cast<int>(1 + seed % 3);
      SCOPED_TRACE(formatted("n {} seed {}", n, seed));
      Served ranks(kFloats[seed / 2 % 4], draw_tensors(n, random), roles, options);
      for (std::uint32_t step = 0; step < 2; ++step) {
        ranks.begin(step);
        ranks.run(random());
        ranks.expect_served(std::ranges::count(roles, kWorker) + 1 == GetParam() && n > 0);
      }
    }
  }
}

TEST_P(Server, GivesTheBitsOfTheWorkersAloneForLargeBuckets) {
  const std::vector<Roles> all = layouts(GetParam());
  std::mt19937_64 random(GetParam());
  Served ranks(GetParam() % 2 == 0 ? DType::bf16 : DType::f32, draw_tensors(65537, random),
               all[GetParam() % all.size()], {.piece_elements = 5000});
  ranks.begin(0);
  ranks.run(1);
  ranks.expect_served(false);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Server, ::testing::Range(1u, 9u));

/// One server of two workers; pieces enough for phases that are longer than what is in flight.
Served small(const Roles& roles = {kServer, kWorker, kWorker}) {
  return Served(DType::f32, {{{12, 20}}, {{30}}, {{}}, {{470}}}, roles, {.piece_elements = 30});
}

TEST(Servers, ShareABucketOut) {
  Served ranks = small({kServer, kWorker, kServer, kWorker});
  ranks.begin(1);
  const std::vector<Bytes> before = ranks.data;
  ranks.run(1);
  ranks.expect_served(false);
  const std::size_t bytes = ranks.expected.size();
  const auto cut = static_cast<std::ptrdiff_t>(
      std::ranges::mismatch(ranks.data[0], ranks.expected).in1 - ranks.data[0].begin());
  EXPECT_GT(static_cast<std::size_t>(cut), bytes / 3);
  EXPECT_LT(static_cast<std::size_t>(cut), 2 * bytes / 3);
  // What a mere server does not own it leaves alone.
  EXPECT_TRUE(std::equal(before[0].begin() + cut, before[0].end(), ranks.data[0].begin() + cut));
  EXPECT_TRUE(
      std::equal(ranks.expected.begin() + cut, ranks.expected.end(), ranks.data[2].begin() + cut));
}

TEST(Servers, AreAllThatWorkersTalkTo) {
  Served ranks = small();
  ranks.begin(1);
  std::size_t between_workers = 0, with_server = 0;
  ranks.run(1, [&](std::uint64_t, unsigned from, unsigned to, Bytes& bytes) {
    (from != 0 && to != 0 ? between_workers : with_server) += bytes.size();
  });
  ranks.expect_served(true);
  EXPECT_EQ(between_workers, 0u);
  const std::uint64_t bucket = ranks.buckets[0].bytes();
  const auto stats = [&](unsigned rank) { return ranks.exchanges[rank]->stats(); };
  EXPECT_EQ(stats(0).to_owners.original, 0u);
  EXPECT_EQ(stats(0).from_owners.original, 2 * bucket);
  EXPECT_EQ(stats(1).to_owners.original, bucket);
  EXPECT_EQ(stats(1).from_owners.original, 0u);
  std::uint64_t sent = 0;
  for (unsigned r = 0; r < 3; ++r) sent += stats(r).to_owners.sent() + stats(r).from_owners.sent();
  EXPECT_EQ(sent, with_server);
}

TEST(Servers, HaveOneSumThatEveryWorkerGets) {
  // Deterministic: neither the interleaving nor the step before changes a bit.
  Served ranks = small({kWorker, kBoth, kWorker, kServer});
  ranks.begin(1);
  ranks.run(1);
  const Bytes first = ranks.data[0];
  for (std::uint64_t seed = 2; seed < 10; ++seed) {
    ranks.begin(1);
    ranks.run(seed);
    ranks.expect_served(false);
    ASSERT_TRUE(ranks.data[0] == first);
  }
}

TEST(Servers, LearnOfEveryFailureAndTellIt) {
  Served clean = small();
  clean.begin(5);
  const std::uint64_t steps = clean.run(1);
  ASSERT_GT(steps, 40u);
  for (unsigned failing = 0; failing < 3; ++failing) {
    for (std::uint64_t when = failing; when <= steps; when += 3) {
      SCOPED_TRACE(formatted("rank {} fails before step {}", failing, when));
      Served ranks = small();
      ranks.begin(5);
      const auto cancel = [&] {
        ranks.exchanges[failing]->cancel(ErrorKind::invalid_argument, "a gradient is missing");
      };
      if (when == 0) cancel();
      EXPECT_EQ(ranks.run(when,
                          [&](std::uint64_t id, unsigned, unsigned to, Bytes&) {
                            if (id + 1 == when && to == failing) cancel();
                          }),
                steps);
      const std::size_t errors = ranks.expect_ends();
      // By way of the server twice as many steps are on their way.
      if (when + (failing == 0 ? 8 : 16) <= steps) {
        EXPECT_EQ(errors, 3u);
      }
      EXPECT_EQ(ranks.exchanges[failing]->error()->kind(), ErrorKind::invalid_argument);
      for (const auto& exchange : ranks.exchanges) EXPECT_TRUE(exchange->done());
    }
  }
}

TEST(Servers, NoticeDamageOfAnyMessage) {
  Served clean = small();
  clean.begin(5);
  const std::uint64_t steps = clean.run(1);
  std::mt19937_64 random(6);
  for (std::uint64_t when = 0; when < steps; when += 2 + when % 3) {
    for (const auto& [from, to] : {std::pair{0u, 1u}, {1u, 0u}, {2u, 0u}, {0u, 2u}}) {
      SCOPED_TRACE(formatted("step {} from {} to {}", when, from, to));
      Served ranks = small();
      ranks.begin(5);
      ranks.run(random(),
                [&, f = from, t = to](std::uint64_t id, unsigned a, unsigned b, Bytes& bytes) {
                  if (id != when || a != f || b != t) return;
                  if (random() % 4 == 0) return bytes.resize(random() % bytes.size());
                  bytes[random() % bytes.size()] ^= static_cast<std::uint8_t>(1u << random() % 8);
                });
      const std::size_t errors = ranks.expect_ends();
      EXPECT_TRUE(ranks.exchanges[to]->error()) << "the receiver did not notice";
      if (when + 16 < steps) {
        EXPECT_EQ(errors, 3u);
      }
    }
  }
}

TEST(Servers, LeaveNobodyWaitingWhenARankIsLost) {
  for (unsigned lost = 0; lost < 3; ++lost) {
    for (std::uint64_t from_step = 0; from_step < 20; from_step += 3) {
      Served ranks = small();
      ranks.begin(5);
      ranks.run(from_step, [&](std::uint64_t id, unsigned from, unsigned to, Bytes& bytes) {
        if (id >= from_step && (from == lost || to == lost) && !bytes.empty()) bytes[0] ^= 1;
      });
      EXPECT_EQ(ranks.expect_ends(), 3u) << "rank " << lost << " from step " << from_step;
      for (ExchangeBucket& bucket : ranks.buckets) bucket.reset();
      ranks.begin(6);
      ranks.run(1);
      ranks.expect_served(true);
    }
  }
}

TEST(Servers, MustBeTheSameOnAllRanks) {
  Served ranks = small();
  ranks.begin(5);
  ranks.buckets[1] = ExchangeBucket(0, DType::f32, ranks.tensors, 1, 3,
                                    {.piece_elements = 20, .roles = {kBoth, kWorker, kWorker}});
  ranks.exchanges[1] = ranks.buckets[1].two_shot(ranks.data[1], 5);
  try {
    ranks.run(1);
    EXPECT_EQ(ranks.expect_ends(), 3u);
  } catch (const Error& error) {  // the transport sees it in the lengths
    EXPECT_EQ(error.kind(), ErrorKind::transport);
  }
}

TEST(Servers, AreRefusedWhereTheyCannotBe) {
  const auto make = [](const Roles& roles, bool even = false) {
    return ExchangeBucket(0, DType::f32, {{{100}}}, 0, 2, {.even_shards = even, .roles = roles});
  };
  EXPECT_THROW(make({kBoth}), Error);
  EXPECT_THROW(make({kServer, kServer}), Error);
  EXPECT_THROW(make({kWorker, kWorker}), Error);
  EXPECT_THROW(make({kBoth, static_cast<Role>(0)}), Error);
  EXPECT_THROW(make({kBoth, kBoth}, true), Error);
  ExchangeBucket bucket = make({kServer, kWorker});
  Bytes data(400);
  EXPECT_THROW(bucket.gather_merge(data, 0), Error);
}

}  // namespace
}  // namespace gradwire::testing
