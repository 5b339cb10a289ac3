// Whatever goes wrong, on whichever rank: all ranks throw the same error, and the communicator
// serves the next call.
#include "mpi_testing.h"

namespace gradwire::testing {
namespace {

using mpi::Options;
using ::testing::HasSubstr;

bool is_last() { return world_rank() + 1 == world_size(); }

void expect_usable() { Problem(DType::bf16, 2000, {.piece_elements = 100}, 50).expect_right(); }

/// One call with other arguments on the last rank than on the others.
template <typename Count, typename Type>
std::string differing_error(ErrorKind kind, Count count, Type type, MPI_Op op,
                            const Options& options = {}) {
  Bytes buffer(8000);
  const std::string text = common_error(kind, [&] {
    if (is_last()) {
      mpi::allreduce(MPI_IN_PLACE, buffer.data(), count, type, op, MPI_COMM_WORLD, options);
    } else {
      mpi::allreduce(MPI_IN_PLACE, buffer.data(), 500, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    }
  });
  expect_usable();
  return text;
}

TEST(WrongArguments, OfOneRankAreToldToAll) {
  constexpr ErrorKind kKind = ErrorKind::invalid_argument;
  const std::string who = formatted("rank {}: ", world_size() - 1);
  EXPECT_THAT(differing_error(kKind, 500, MPI_INT, MPI_SUM), HasSubstr(who + "datatype: MPI_INT"));
  EXPECT_THAT(differing_error(kKind, 500, MPI_DATATYPE_NULL, MPI_SUM), HasSubstr("NULL"));
  EXPECT_THAT(differing_error(kKind, 500, DType::i32, MPI_SUM), HasSubstr(who + "dtype i32"));
  EXPECT_THAT(differing_error(kKind, 500, MPI_FLOAT, MPI_MAX), HasSubstr(who + "op: only"));
  EXPECT_THAT(differing_error(kKind, -1, MPI_FLOAT, MPI_SUM), HasSubstr("count: -1"));
  EXPECT_THAT(differing_error(kKind, 500, MPI_FLOAT, MPI_SUM, {.piece_elements = 0}),
              HasSubstr("piece_elements"));
  EXPECT_THAT(differing_error(kKind, 500, MPI_FLOAT, MPI_SUM, {.split_elements = 0}),
              HasSubstr("split_elements"));
  EXPECT_THAT(differing_error(kKind, 500, MPI_FLOAT, MPI_SUM, {.tensors = {{{20, 20}}}}),
              HasSubstr("tensors: 400"));
  EXPECT_THAT(differing_error(kKind, 500, MPI_FLOAT, MPI_SUM, {.compress = {.level = 9}}),
              HasSubstr("level"));
}

TEST(WrongArguments, OfAllRanksAreRefused) {
  float value = 0;
  const auto call = [&](const void* from, void* to) {
    return common_error(ErrorKind::invalid_argument,
                        [&] { mpi::allreduce(from, to, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); });
  };
  EXPECT_THAT(call(nullptr, &value), HasSubstr("sendbuf"));
  EXPECT_THAT(call(&value, nullptr), HasSubstr("recvbuf"));
  EXPECT_THAT(call(&value, MPI_IN_PLACE), HasSubstr("recvbuf"));
  EXPECT_THROW(mpi::allreduce(MPI_IN_PLACE, &value, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_NULL), Error);
  expect_usable();
}

TEST(Disagreement, IsAnErrorThatNamesTheFirstDifference) {
  if (world_size() == 1) return;
  constexpr ErrorKind kKind = ErrorKind::transport;
  const std::string who = formatted("on rank {}", world_size() - 1);
  EXPECT_THAT(differing_error(kKind, 501, MPI_FLOAT, MPI_SUM),
              HasSubstr("`count 500` on rank 0, `count 501` " + who));
  EXPECT_THAT(differing_error(kKind, 0, MPI_FLOAT, MPI_SUM), HasSubstr("`count 0` " + who));
  EXPECT_THAT(differing_error(kKind, 500, MPI_DOUBLE, MPI_SUM), HasSubstr("`dtype f64` " + who));
  EXPECT_THAT(differing_error(kKind, 500, MPI_FLOAT, MPI_SUM, {.mean = true}),
              HasSubstr("`mean true` " + who));
  EXPECT_THAT(differing_error(kKind, 500, MPI_FLOAT, MPI_SUM, {.tensors = {{{50, 10}}}}),
              HasSubstr("`tensors 1, hash"));
  EXPECT_THAT(differing_error(kKind, 500, MPI_FLOAT, MPI_SUM, {.split_elements = 100}),
              HasSubstr("split_elements 100"));
  EXPECT_THAT(differing_error(kKind, 500, MPI_FLOAT, MPI_SUM, {.compress = {.level = 1}}),
              HasSubstr("`level 1`"));
}

TEST(Disagreement, DoesNotReachTheCallsBehindIt) {
  if (world_size() == 1) return;
  Bytes wrong(8000);
  const Problem good(DType::f32, 3000, {}, 30);
  Bytes first = good.input, last = good.input;
  mpi::Request before = good.start(first.data());
  mpi::Request between = mpi::iallreduce(MPI_IN_PLACE, wrong.data(), is_last() ? 5 : 6, MPI_FLOAT,
                                         MPI_SUM, MPI_COMM_WORLD);
  mpi::Request after = good.start(last.data());
  after.wait();
  before.wait();
  EXPECT_TRUE(first == good.expected);
  EXPECT_TRUE(last == good.expected);
  common_error(ErrorKind::transport, [&] { between.wait(); });
  common_error(ErrorKind::transport, [&] { between.test(); });
}

/// Rank 1 sends one damaged message to rank 0; returns true if there was such a message.
class Damage : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (world_size() == 1) GTEST_SKIP();
  }
  void TearDown() override { tamper_with(nullptr); }

  void run(std::uint64_t message, const std::function<void(Bytes&)>& damage, ErrorKind kind) {
    SCOPED_TRACE(formatted("message {}", message));
    bool done = false;
    tamper_with([&](unsigned to, std::uint64_t m, Bytes& bytes) {
      if (world_rank() == 1 && to == 0 && m == message) {
        damage(bytes);
        done = true;
      }
    });
    Bytes buffer = problem_.input;
    const std::string text = common_error(kind, [&] { problem_.run(buffer.data()); });
    EXPECT_THAT(text, HasSubstr("allreduce: rank 0: "));
    EXPECT_EQ(done, world_rank() == 1);
    tamper_with(nullptr);
    if (message % 4 == 0) expect_usable();
    if (message % 4 == 1) problem_.expect_right();  // the rooms of this very bucket
  }
  std::uint64_t count_messages() {
    std::uint64_t most = 0;
    tamper_with([&](unsigned to, std::uint64_t m, Bytes&) {
      if (to == 0) most = std::max(most, m + 1);
    });
    Bytes buffer = problem_.input;
    problem_.run(buffer.data());
    MPI_Bcast(&most, 1, MPI_UINT64_T, 1, MPI_COMM_WORLD);
    return most;
  }

  Problem problem_{DType::f32, 3000,
                   Options{.route = GetParam() ? mpi::Route::gather_merge : mpi::Route::two_shot,
                           .piece_elements = 150,
                           .split_elements = 2000},
                   40};
};

TEST_P(Damage, OfAHeaderOrABodyIsCorruptOnAllRanks) {
  const std::uint64_t messages = count_messages();
  EXPECT_GT(messages, 10u);
  for (std::uint64_t m = 0; m < messages; ++m) {
    const bool header = m % 2 == 0;
    const auto damage = [&](Bytes& bytes) { (header ? bytes[7 * m % 48] : bytes.back()) ^= 4; };
    run(m, damage, ErrorKind::corrupt);
  }
}

TEST_P(Damage, OfALengthIsATransportErrorOnAllRanks) {
  const std::uint64_t messages = count_messages();
  for (std::uint64_t m = 0; m < messages; m += 5) {
    run(m, [&](Bytes& bytes) { bytes.pop_back(); }, ErrorKind::transport);
    if (m + 1 < messages)
      run(m + 1, [&](Bytes& bytes) { bytes.resize(bytes.size() + 100000); }, ErrorKind::transport);
  }
}

/// Large messages wait for their receiver: one that has stopped must still take them.
TEST_P(Damage, LeavesNoLargeMessageBehind) {
  const mpi::Route route = problem_.options.route;
  problem_ = Problem(DType::f64, 200000, {.route = route, .piece_elements = 20000}, 41);
  run(1, [](Bytes& bytes) { bytes[100] ^= 1; }, ErrorKind::corrupt);
  run(0, [](Bytes& bytes) { bytes[0] ^= 1; }, ErrorKind::corrupt);
}

INSTANTIATE_TEST_SUITE_P(Routes, Damage, ::testing::Bool());

}  // namespace
}  // namespace gradwire::testing
