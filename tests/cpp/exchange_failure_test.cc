// What happens when messages are damaged, exchanged or foreign, and when ranks fail: every rank
// ends, with an error or with the right bits.

#include <map>
#include <tuple>

#include "base/hash.h"
#include "exchange/settings.h"
#include "exchange/wire.h"
#include "exchange_testing.h"

namespace gradwire::testing {
namespace {

using exchange::kPieceHeader;

using Key = std::tuple<std::uint64_t, unsigned, unsigned>;  ///< step, from, to
using Messages = std::map<Key, Bytes>;

constexpr std::uint32_t kStep = 5;

/// Three ranks; shards of six or seven small pieces, so that phases are longer than four messages.
class Damage : public ::testing::TestWithParam<bool> {
 protected:
  Ranks make(std::uint32_t index = 3) {
    ExchangeOptions options;
    options.order = SumOrder::gloo;
    options.piece_elements = gather() ? 64 : 20;
    return Ranks(DType::f32, {{{12, 20}}, {{30}}, {{}}, {{70}}}, 3, options, index);
  }
  bool gather() const { return GetParam(); }
  /// Steps of which a header's loss cannot be made good: message 0 of a phase.
  bool is_first(std::uint64_t step, std::uint64_t steps) const {
    return step == 0 || (!gather() && step == steps / 2);
  }
  /// All messages of a run, whose ranks had to be right.
  Messages record(Ranks& ranks, std::uint32_t step) {
    Messages messages;
    ranks.fill(1);
    ranks.start(gather(), step);
    steps_ = ranks.run(1, [&](std::uint64_t id, unsigned from, unsigned to, Bytes& bytes) {
      messages[{id, from, to}] = bytes;
    });
    ranks.expect_right();
    return messages;
  }
  /// A run in which one message is replaced. Returns true if a rank was lost.
  bool run_with(const Key& key, const Bytes& instead, std::uint64_t seed) {
    SCOPED_TRACE(
        formatted("step {} from {} to {}", std::get<0>(key), std::get<1>(key), std::get<2>(key)));
    Ranks ranks = make();
    ranks.fill(1);
    ranks.start(gather(), kStep);
    ranks.run(seed, [&](std::uint64_t id, unsigned from, unsigned to, Bytes& bytes) {
      if (Key{id, from, to} == key) bytes = instead;
    });
    const std::size_t errors = ranks.expect_safe();
    EXPECT_GT(errors, 0u) << "nobody noticed";
    EXPECT_TRUE(ranks.exchanges[std::get<2>(key)]->error()) << "the receiver did not notice";
    bool lost = false;
    for (const auto& exchange : ranks.exchanges) lost |= exchange->lost();
    // Those with four messages to go hear of it.
    if (std::get<0>(key) + 4 < steps_) {
      EXPECT_EQ(errors, 3u);
    }
    return lost;
  }
  std::uint64_t steps_ = 0;
};

TEST_P(Damage, OfAnyBitIsNoticed) {
  Ranks clean = make();
  const Messages messages = record(clean, kStep);
  std::mt19937_64 random(2);
  for (const auto& [key, message] : messages) {
    for (std::size_t at = random() % 8; at < message.size();
         at += at < kPieceHeader ? 2 + random() % 12 : 97) {
      Bytes damaged = message;
      damaged[at] ^= static_cast<std::uint8_t>(1u << random() % 8);
      const bool lost = run_with(key, damaged, random());
      ASSERT_EQ(lost, at < kPieceHeader && is_first(std::get<0>(key), steps_)) << "byte " << at;
    }
  }
}

TEST_P(Damage, OfALengthIsNoticed) {
  Ranks clean = make();
  const Messages messages = record(clean, kStep);
  std::size_t turn = 0;
  for (const auto& [key, message] : messages) {
    const std::size_t sizes[] = {0,
                                 1,
                                 kPieceHeader - 1,
                                 kPieceHeader,
                                 message.size() - 1,
                                 message.size() + 1,
                                 message.size() + 100};
    for (int k = 0; k < 2; ++k) {  // the messages share them out
      const std::size_t size = sizes[turn++ % std::size(sizes)];
      if (size == message.size()) continue;
      Bytes cut = message;
      cut.resize(size);
      EXPECT_EQ(run_with(key, cut, size), is_first(std::get<0>(key), steps_));
    }
  }
}

/// Each message is replaced by every other one of this run, of another step, of another bucket.
TEST_P(Damage, ByForeignMessagesIsNoticed) {
  Ranks clean = make();
  const Messages messages = record(clean, kStep);
  std::mt19937_64 random(3);
  for (const auto& [key, message] : messages) {
    for (const auto& [other, instead] : messages)
      if (other != key && random() % 48 == 0) run_with(key, instead, random());
  }
  Ranks later = make();
  const Messages of_later = record(later, kStep + 1);
  Ranks second = make(4);
  const Messages of_second = record(second, kStep);
  for (const auto& [key, message] : messages) {
    run_with(key, of_later.at(key), random());
    run_with(key, of_second.at(key), random());
  }
}

TEST_P(Damage, ByTwoExchangedMessagesIsNoticed) {
  Ranks clean = make();
  const Messages messages = record(clean, kStep);
  for (std::uint64_t step = 0; step < steps_; ++step) {
    Ranks ranks = make();
    ranks.fill(1);
    ranks.start(gather(), kStep);
    ranks.run(step, [&](std::uint64_t id, unsigned from, unsigned to, Bytes& bytes) {
      if (id == step && to == 0) bytes = messages.at({id, 3 - from, to});  // 1 for 2, 2 for 1
    });
    ranks.expect_safe();
    EXPECT_TRUE(ranks.exchanges[0]->error());
  }
}

TEST_P(Damage, IsForgottenByReset) {
  Ranks ranks = make();
  std::mt19937_64 random(4);
  for (std::uint32_t step = 0; step < 40; ++step) {
    const std::uint64_t when = random() % 16;
    ranks.fill(step);
    ranks.start(gather(), step);
    ranks.run(step, [&](std::uint64_t id, unsigned, unsigned to, Bytes& bytes) {
      if (id == when && to == step % 3) bytes[random() % bytes.size()] ^= 16;
    });
    const std::size_t errors = ranks.expect_safe();
    if (errors == 0) continue;
    for (ExchangeBucket& bucket : ranks.buckets) bucket.reset();  // as all agree on the failure
    ranks.fill(step + 100);
    ranks.start(gather(), step);
    ranks.run(step);
    ranks.expect_right();
  }
}

TEST_P(Damage, OfSeveralHeadersMayLoseARank) {
  for (std::uint64_t from_step = 0; from_step < 6; ++from_step) {
    Ranks ranks = make();
    ranks.fill(1);
    ranks.start(gather(), kStep);
    ranks.run(from_step, [&](std::uint64_t id, unsigned from, unsigned, Bytes& bytes) {
      if (id >= from_step && from == 1) bytes[0] ^= 1;
    });
    ranks.expect_safe();
    EXPECT_TRUE(ranks.exchanges[0]->error());
    EXPECT_TRUE(ranks.exchanges[2]->error());
  }
}

TEST_P(Damage, OfOneRanksOwnMakingIsTold) {
  Ranks clean = make();
  record(clean, kStep);
  for (unsigned failing = 0; failing < 3; ++failing) {
    for (std::uint64_t when = 0; when <= steps_; ++when) {
      Ranks ranks = make();
      ranks.fill(1);
      ranks.start(gather(), kStep);
      const auto cancel = [&] {
        ranks.exchanges[failing]->cancel(ErrorKind::invalid_argument, "a gradient is missing");
      };
      if (when == 0) cancel();
      const std::uint64_t steps =
          ranks.run(when, [&](std::uint64_t id, unsigned, unsigned to, Bytes&) {
            if (id + 1 == when && to == failing) cancel();
          });
      EXPECT_EQ(steps, steps_) << "a failure must not change the steps";
      const std::size_t errors = ranks.expect_safe();
      if (when + 4 <= steps_) {
        EXPECT_EQ(errors, 3u) << "cancelled before step " << when;
      }
      for (const auto& exchange : ranks.exchanges) {
        EXPECT_TRUE(exchange->done());
        EXPECT_FALSE(exchange->lost());
      }
      EXPECT_EQ(ranks.exchanges[failing]->error()->kind(), ErrorKind::invalid_argument);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Exchanges, Damage, ::testing::Bool());

/// Ranks that differ in what they must share refuse each other's first message.
void expect_disagreement(Ranks ranks, ExchangeBucket other, std::uint32_t other_step = kStep) {
  ranks.fill(1);
  ranks.buckets[1] = std::move(other);
  ranks.start(false, kStep);
  ranks.exchanges[1] = ranks.buckets[1].two_shot(ranks.data[1], other_step);
  ranks.run(1);
  for (const auto& exchange : ranks.exchanges) EXPECT_TRUE(exchange->error());
}

TEST(Agreement, IsDemanded) {
  const std::vector<BucketTensor> tensors = {{{40, 50}}};
  const ExchangeOptions options;
  const auto make = [&] { return Ranks(DType::f32, tensors, 2, options); };
  const auto bucket = [&](const ExchangeOptions& other, std::uint32_t index = 0) {
    return ExchangeBucket(index, DType::f32, tensors, 1, 2, other);
  };
  expect_disagreement(make(), bucket({.order = SumOrder::gloo}));
  expect_disagreement(make(), bucket({.mean = false}));
  expect_disagreement(make(), bucket({.piece_elements = 60000}));
  expect_disagreement(make(), bucket(options, 1));
  expect_disagreement(make(), bucket(options), kStep + 1);
  expect_disagreement(make(), ExchangeBucket(0, DType::f32, {{{50, 40}}}, 1, 2, options));
}

TEST(Agreement, LeavesTheCoderToEachRank) {
  const std::vector<BucketTensor> tensors = {{{40, 50}}};
  Ranks ranks(DType::f32, tensors, 2, {});
  ExchangeOptions other;
  other.compress = {.level = 3, .coder = Coder::stored};
  ranks.buckets[1] = ExchangeBucket(0, DType::f32, tensors, 1, 2, other);
  ranks.fill(1);
  ranks.start(false, kStep);
  ranks.run(1);
  ranks.expect_right();
}

// --- a peer that lies, with headers whose checks are right -------------------------------------

struct Lie {
  std::uint64_t step;
  std::function<void(exchange::PieceHeader&, Bytes& body)> change;
};

/// Rank 0 of two under a peer's lie: the lengths that it asks for afterwards, at most.
std::size_t most_asked_after(const Lie& lie) {
  const std::vector<BucketTensor> tensors = {{{40, 50}}};
  const ExchangeOptions options{.piece_elements = 200};
  const exchange::AdditionRule rule{DType::f32, options.order, 2, options.mean, 2000};
  Ranks ranks(DType::f32, tensors, 2, options);
  ranks.fill(1);
  ranks.start(false, kStep);
  const auto tamper = [&](std::uint64_t id, unsigned from, unsigned to, Bytes& bytes) {
    if (id != lie.step || from != 1) return;
    exchange::Place place{0,
                          kStep,
                          1,
                          static_cast<std::uint32_t>(id),
                          from,
                          to,
                          exchange::agreement_of(rule, options, tensors)};
    exchange::PieceHeader header =
        exchange::read_header(ByteSpan(bytes).first(kPieceHeader), place);
    Bytes body(bytes.begin() + kPieceHeader, bytes.end());
    lie.change(header, body);
    exchange::write_header(header, bytes.data());
    std::ranges::copy(body, bytes.begin() + kPieceHeader);
  };
  try {
    ranks.run(1, tamper);
  } catch (const Error& error) {  // only the transport may find that lengths differ
    EXPECT_EQ(error.kind(), ErrorKind::transport);
  }
  std::size_t most = 0;
  while (std::optional<ExchangeStep> step = ranks.exchanges[0]->next())
    most = std::max(most, step->receive_bytes[1]);
  return most;
}

TEST(Lies, AboutLengthsAreBounded) {
  for (const std::uint64_t step : {0, 1, 2}) {
    for (std::size_t k = 0; k < exchange::kAhead; ++k) {
      for (const std::uint32_t length : {0u, 1u, 5000u, 0x7fffffffu, 0xffffffffu}) {
        const std::size_t most = most_asked_after(
            {step, [&](exchange::PieceHeader& header, Bytes&) { header.ahead[k] = length; }});
        EXPECT_LT(most, 8000u);
      }
    }
  }
  most_asked_after({0, [](exchange::PieceHeader& header, Bytes&) { header.length = 0xffffffff; }});
  most_asked_after({0, [](exchange::PieceHeader& header, Bytes&) { header.length = 0; }});
  most_asked_after({1, [](exchange::PieceHeader& header, Bytes&) { header.length ^= 1; }});
}

TEST(Lies, InBodiesAreRefusedByTheDecoder) {
  std::mt19937_64 random(1);
  for (int k = 0; k < 150; ++k) {
    most_asked_after(
        {static_cast<std::uint64_t>(random() % 5), [&](exchange::PieceHeader& header, Bytes& body) {
           if (body.empty()) return;
           body[random() % body.size()] ^= static_cast<std::uint8_t>(random());
           header.checksum = hash64(body);
         }});
  }
}

}  // namespace
}  // namespace gradwire::testing
