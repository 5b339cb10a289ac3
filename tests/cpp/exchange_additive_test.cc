// All-reduces of integers by the transport's own: the sums of a plain loop, no overflow, and one
// end for all ranks.

#include "base/bytes.h"
#include "exchange_testing.h"

namespace gradwire::testing {
namespace {

constexpr Reduction kReductions[] = {Reduction::i32_sum, Reduction::u8_or, Reduction::i64_max};

template <typename Value>
Value value_at(const Bytes& data, std::size_t i) {
  return gradwire::load<Value>(data.data() + sizeof(Value) * i);
}

/// All ranks of one additive bucket.
struct Adders {
  AdditiveBucket bucket;
  std::vector<Bytes> data;
  Bytes expected;
  std::vector<std::unique_ptr<Exchange>> exchanges;

  Adders(Reduction reduction, std::uint64_t elements, unsigned world, std::uint32_t piece,
         std::uint32_t most = 1000)
      : bucket{.index = 7,
               .world = world,
               .reduction = reduction,
               .elements = elements,
               .most = most,
               .piece_elements = piece} {}
  std::size_t width() const {
    return bucket.reduction == Reduction::i32_sum ? 4
           : bucket.reduction == Reduction::u8_or ? 1
                                                  : 8;
  }
  void fill(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    data.assign(bucket.world, Bytes(bucket.elements * width()));
    for (Bytes& values : data) {
      if (bucket.reduction != Reduction::i32_sum) {
        for (std::uint8_t& byte : values) byte = static_cast<std::uint8_t>(random() & random());
        continue;
      }
      const std::int64_t most = bucket.most;
      for (std::size_t at = 0; at < values.size(); at += 4) {
        auto value = static_cast<std::int64_t>(random() % (2 * bucket.most + 1ull)) - most;
        if (random() % 8 == 0) value = random() % 2 == 0 ? most : -most;
        gradwire::store(&values[at], static_cast<std::int32_t>(value));
      }
    }
    expected.resize(data[0].size());
    for (std::size_t i = 0; i < bucket.elements; ++i) expect_element(i);
  }
  void start(std::uint32_t step) {
    exchanges.clear();
    for (bucket.rank = 0; bucket.rank < bucket.world; ++bucket.rank)
      exchanges.push_back(additive(bucket, data[bucket.rank], step));
  }
  std::uint64_t run(std::uint64_t seed, Loopback::Tamper tamper = nullptr) {
    return run_all(exchanges, seed, std::move(tamper));
  }
  void expect_right() const {
    for (std::size_t r = 0; r < exchanges.size(); ++r) {
      ASSERT_TRUE(exchanges[r]->done());
      ASSERT_FALSE(exchanges[r]->error()) << exchanges[r]->error()->what();
      ASSERT_TRUE(data[r] == expected) << "rank " << r << " has other bits";
    }
  }
  std::size_t errors() const {
    std::size_t count = 0;
    for (const auto& exchange : exchanges) {
      EXPECT_TRUE(exchange->done());
      count += exchange->error() ? 1 : 0;
    }
    return count;
  }
  std::string what(unsigned rank) const {
    return exchanges[rank]->error() ? exchanges[rank]->error()->what() : "no error";
  }

 private:
  void expect_element(std::size_t i) {
    std::int64_t sum = 0, largest = INT64_MIN;
    std::uint8_t bits = 0;
    for (const Bytes& values : data) {
      if (width() == 4) sum += value_at<std::int32_t>(values, i);
      if (width() == 8) largest = std::max(largest, value_at<std::int64_t>(values, i));
      if (width() == 1) bits |= values[i];
    }
    ASSERT_TRUE(sum <= INT32_MAX && sum >= -INT32_MAX);
    if (width() == 4) gradwire::store(&expected[4 * i], static_cast<std::int32_t>(sum));
    if (width() == 8) gradwire::store(&expected[8 * i], largest);
    if (width() == 1) expected[i] = bits;
  }
};

class Additive : public ::testing::TestWithParam<unsigned> {};

TEST_P(Additive, GivesThePlainSums) {
  const unsigned world = GetParam();
  for (const Reduction reduction : kReductions) {
    for (const auto& [n, piece] : {std::pair{0u, 64u},
                                   {1, 64},
                                   {7, 3},
                                   {1000, 90},
                                   {1000, 65536},
                                   {65537, 5000},
                                   {65537, 65536}}) {
      for (const std::uint32_t most : {1u, static_cast<std::uint32_t>(INT32_MAX / world)}) {
        if (reduction != Reduction::i32_sum && most != 1) continue;
        SCOPED_TRACE(formatted("reduction {} n {} piece {} most {}", static_cast<int>(reduction), n,
                               piece, most));
        Adders ranks(reduction, n, world, piece, most);
        ranks.fill(n + most + world);
        ranks.start(3);
        const std::uint64_t steps = ranks.run(n);
        ranks.expect_right();
        EXPECT_EQ(steps, world == 1 || n == 0 ? 0 : (n + piece - 1) / piece + 1);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Additive, ::testing::Range(1u, 9u));

TEST(AdditiveExchange, CountsWhatARankGives) {
  Adders ranks(Reduction::i32_sum, 1000, 3, 100);
  ranks.fill(1);
  ranks.start(0);
  std::uint64_t given = 0;
  ranks.run(1, [&](std::uint64_t, unsigned from, unsigned to, Bytes& bytes) {
    if (from == 0 && to == 1) given += bytes.size();
  });
  const WayBytes& bytes = ranks.exchanges[0]->stats().to_owners;
  EXPECT_EQ(bytes.original, 4000u);
  EXPECT_EQ(bytes.headers, 10 * 4 + 24u);
  EXPECT_EQ(bytes.sent(), given);
}

TEST(AdditiveExchange, PostsFourPiecesAheadAndTheClosingAlone) {
  Adders ranks(Reduction::u8_or, 60, 2, 10);
  ranks.fill(1);
  ranks.start(0);
  Exchange& exchange = *ranks.exchanges[0];
  std::vector<ExchangeStep> posted;
  const auto post = [&] {
    while (std::optional<ExchangeStep> step = exchange.next()) posted.push_back(std::move(*step));
    return posted.size();
  };
  EXPECT_EQ(post(), 4u);
  for (std::uint64_t id = 0; id < 6; ++id) {
    EXPECT_EQ(post(), std::min<std::uint64_t>(id + 4, 6));
    EXPECT_EQ(posted[id].kind, StepKind::all_reduce);
    EXPECT_EQ(posted[id].reduction, Reduction::u8_or);
    EXPECT_TRUE(posted[id].send_bytes.empty());
    exchange.complete(id, posted[id].send);
  }
  EXPECT_EQ(post(), 7u);
  EXPECT_EQ(posted[6].reduction, Reduction::i64_max);
  EXPECT_THROW(exchange.complete(5, posted[5].send), Error);
  exchange.complete(6, posted[6].send);
  EXPECT_TRUE(exchange.done());
  EXPECT_FALSE(exchange.error());
  EXPECT_THROW(exchange.complete(7, {}), Error);
}

/// The bytes of one small sum, worked by hand from docs/exchange.md 8.
TEST(AdditiveExchange, ChecksAsItsDocumentSays) {
  AdditiveBucket bucket{.world = 2, .elements = 3, .most = 10};
  Bytes data(12);
  const std::int32_t values[] = {5, -7, 2};
  std::memcpy(data.data(), values, 12);
  const auto check = [&](std::uint32_t step) {
    return gradwire::load<std::int32_t>(additive(bucket, data, step)->next()->send.data());
  };
  const std::int64_t modulus = 1073741823;  // (2^31 - 1) / 2 is odd
  const std::int64_t with_values = check(4);
  std::memset(data.data(), 0, 12);
  const std::int64_t without = check(4);
  EXPECT_EQ((with_values - without + modulus) % modulus, modulus + 1 * 5 - 2 * 7 + 3 * 2 - 0);
  EXPECT_NE(check(5), without) << "the step is part of it";
}

TEST(AdditiveExchange, RefusesSumsThatCouldOverflow) {
  Bytes data(400);
  AdditiveBucket bucket{.world = 3, .elements = 100, .most = 715827882};
  EXPECT_NO_THROW(additive(bucket, data, 0));
  ++bucket.most;  // three times that is 2^31 + 1
  try {
    additive(bucket, data, 0);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    EXPECT_STREQ(error.what(),
                 "most: 715827883 given; the sum of 3 ranks could overflow, at most 715827882 "
                 "allowed");
  }
  bucket.reduction = Reduction::u8_or;  // says nothing of sums
  bucket.elements = 400;
  EXPECT_NO_THROW(additive(bucket, data, 0));
}

TEST(AdditiveExchange, RefusesWhatDoesNotFit) {
  Bytes data(400);
  const AdditiveBucket sound{.world = 2, .elements = 100, .most = 1};
  const auto refuses = [&](auto change) {
    AdditiveBucket bucket = sound;
    change(bucket);
    EXPECT_THROW(additive(bucket, data, 0), Error);
  };
  refuses([](AdditiveBucket& bucket) { bucket.elements = 99; });
  refuses([](AdditiveBucket& bucket) { bucket.elements = std::uint64_t{1} << 62; });
  refuses([](AdditiveBucket& bucket) { bucket.rank = 2; });
  refuses([](AdditiveBucket& bucket) { bucket.world = 70000; });
  refuses([](AdditiveBucket& bucket) { bucket.piece_elements = 0; });
  refuses([](AdditiveBucket& bucket) { bucket.reduction = static_cast<Reduction>(0); });
}

TEST(AdditiveExchange, NamesTheValueBeyondTheLimitAndAllFail) {
  for (const unsigned world : {1u, 3u}) {
    for (const std::int32_t bad : {1001, -1001, INT32_MIN}) {
      Adders ranks(Reduction::i32_sum, 1000, world, 100);
      ranks.fill(1);
      gradwire::store(&ranks.data[world - 1][4 * 777], bad);
      ranks.start(9);
      ranks.run(1);
      EXPECT_EQ(ranks.errors(), world);
      EXPECT_EQ(ranks.what(world - 1),
                formatted("element 777 of bucket 7, step 9: {} found, -1000 to 1000 allowed", bad));
      if (world == 3) {
        EXPECT_EQ(ranks.what(0), "closing of bucket 7, step 9: rank 2 failed (invalid_argument)");
      }
    }
  }
}

TEST(AdditiveExchange, TellsEveryRankOfAFailureBeforeItsClosing) {
  for (const Reduction reduction : kReductions) {
    for (unsigned failing = 0; failing < 3; ++failing) {
      for (std::uint64_t when = 0; when <= 10; ++when) {
        Adders ranks(reduction, 1000, 3, 100);
        ranks.fill(when);
        ranks.start(1);
        const auto cancel = [&] { ranks.exchanges[failing]->cancel(ErrorKind::limit, "memory"); };
        if (when == 0) cancel();
        EXPECT_EQ(ranks.run(when,
                            [&](std::uint64_t id, unsigned, unsigned to, Bytes&) {
                              if (id + 1 == when && to == failing) cancel();
                            }),
                  11u);
        EXPECT_EQ(ranks.errors(), 3u) << "rank " << failing << " fails before step " << when;
      }
    }
  }
}

/// What one rank is given of another's values differs from what the others are given.
TEST(AdditiveExchange, NoticesThatRanksGotOtherResults) {
  for (const Reduction reduction : kReductions) {
    for (std::uint64_t when = 0; when < 10; ++when) {
      Adders ranks(reduction, 1000, 3, 100);
      ranks.fill(when);
      ranks.start(1);
      ranks.run(when, [&](std::uint64_t id, unsigned from, unsigned to, Bytes& bytes) {
        if (id != when || from != 2 || to != 0) return;
        std::ranges::fill(bytes, std::uint8_t{0xff});  // nothing outdoes it
        if (reduction == Reduction::i64_max)
          for (std::size_t at = 7; at < bytes.size(); at += 8) bytes[at] = 0x7f;
      });
      EXPECT_EQ(ranks.errors(), 3u) << "step " << when;
    }
  }
}

/// Damage on the way into the sum, the same for both that get it: only the check can tell.
TEST(AdditiveExchange, ChecksSums) {
  std::mt19937_64 random(3);
  for (std::uint64_t when = 0; when < 10; ++when) {
    for (int turn = 0; turn < 20; ++turn) {
      Adders ranks(Reduction::i32_sum, 1000, 3, 100);
      ranks.fill(when);
      ranks.start(1);
      const std::size_t at = random() % 404;
      const auto bit = static_cast<std::uint8_t>(1u << random() % 8);
      ranks.run(when, [&](std::uint64_t id, unsigned from, unsigned, Bytes& bytes) {
        if (id == when && from == 2) bytes[at] ^= bit;
      });
      EXPECT_EQ(ranks.errors(), 3u);
      for (const unsigned rank : {0u, 1u}) {
        EXPECT_EQ(ranks.what(rank),
                  formatted("piece {} of bucket 7, step 1: the sums do not fit the "
                            "sum of the ranks' checks",
                            when));
      }
    }
  }
}

TEST(AdditiveExchange, SurvivesAnyDamage) {
  std::mt19937_64 random(4);
  for (int turn = 0; turn < 300; ++turn) {
    Adders ranks(kReductions[turn % 3], 200, 3, 30);
    ranks.fill(static_cast<std::uint64_t>(turn));
    ranks.start(1);
    const std::uint64_t steps = 8, when = random() % steps;
    bool cut = false;
    ranks.run(random(), [&](std::uint64_t id, unsigned from, unsigned to, Bytes& bytes) {
      if (id != when || from != 1 || to != 0) return;
      cut = random() % 3 == 0;
      if (cut) return bytes.resize(random() % bytes.size());
      for (int k = 0; k < 8; ++k)
        bytes[random() % bytes.size()] ^= static_cast<std::uint8_t>(random());
    });
    const std::size_t errors = ranks.errors();
    if (cut) {
      EXPECT_TRUE(ranks.exchanges[0]->error());
      EXPECT_EQ(errors, when + 1 < steps ? 3u : 1u);
    }
    for (unsigned r = 0; r < 3; ++r) {
      EXPECT_TRUE(ranks.exchanges[r]->error() || ranks.data[r] == ranks.expected);
    }
  }
}

TEST(AdditiveExchange, RefusesRanksAtOtherPlaces) {
  const auto errors_with = [](auto change) {
    Adders ranks(Reduction::u8_or, 100, 3, 30);
    ranks.fill(1);
    ranks.start(1);
    AdditiveBucket other = ranks.bucket;
    other.rank = 1;
    std::uint32_t step = 1;
    change(other, step);
    ranks.exchanges[1] = additive(other, ranks.data[1], step);
    ranks.run(1);
    return ranks.errors();
  };
  EXPECT_EQ(errors_with([](AdditiveBucket&, std::uint32_t&) {}), 0u);
  EXPECT_EQ(errors_with([](AdditiveBucket&, std::uint32_t& step) { ++step; }), 3u);
  EXPECT_EQ(errors_with([](AdditiveBucket& bucket, std::uint32_t&) { ++bucket.index; }), 3u);
  EXPECT_EQ(errors_with([](AdditiveBucket& bucket, std::uint32_t&) { ++bucket.most; }), 3u);
  // Steps that do not fit together are the transport's to see.
  EXPECT_THROW(errors_with([](AdditiveBucket& bucket, std::uint32_t&) { --bucket.piece_elements; }),
               Error);
}

TEST(AdditiveExchange, DoesNotMixWithOtherExchanges) {
  Adders ranks(Reduction::u8_or, 100, 2, 100);
  ranks.fill(1);
  ranks.start(1);
  ExchangeBucket bucket(7, DType::f32, {{{25}}}, 1, 2, {});
  ranks.exchanges[1] = bucket.two_shot(ranks.data[1], 1);
  EXPECT_THROW(ranks.run(1), Error);
}

}  // namespace
}  // namespace gradwire::testing
