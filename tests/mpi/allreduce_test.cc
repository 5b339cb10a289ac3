// All-reduces over MPI give the bits of a plain loop over the ranks' values.
#include "mpi_testing.h"

namespace gradwire::testing {
namespace {

using mpi::Options;
using mpi::Request;
using mpi::Route;

constexpr std::uint64_t kCounts[] = {0, 1, 7, 1000, 65537};
constexpr Route kRoutes[] = {Route::automatic, Route::two_shot, Route::gather_merge};

TEST(Allreduce, HasTheBitsOfARankOrderSumInPlaceAndNot) {
  std::uint64_t seed = 0;
  for (const std::uint64_t count : kCounts) {
    for (const DType dtype : kFloats) {
      ++seed;
      const Problem problem(
          dtype, count, {.mean = seed % 2 == 0, .route = kRoutes[seed % std::size(kRoutes)]}, seed);
      problem.expect_right();
      Bytes result(problem.input.size(), 0xee);
      mpi::allreduce(problem.input.data(), result.data(), problem.mpi_count(), dtype, MPI_SUM,
                     MPI_COMM_WORLD, problem.options);
      EXPECT_TRUE(result == problem.expected) << dtype_name(dtype) << ", " << count << " elements";
    }
  }
}

TEST(Allreduce, TakesTheDatatypesOfMpi) {
  const Problem floats(DType::f32, 1000, {}, 1), doubles(DType::f64, 1000, {}, 2);
  Bytes a = floats.input, b = doubles.input;
  mpi::allreduce(MPI_IN_PLACE, a.data(), 1000, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  mpi::iallreduce(MPI_IN_PLACE, b.data(), 1000, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD).wait();
  EXPECT_TRUE(a == floats.expected);
  EXPECT_TRUE(b == doubles.expected);
}

TEST(Allreduce, CanAddInTheOrderOfGloo) {
  for (const bool mean : {false, true})
    Problem(DType::bf16, 5000, {.mean = mean, .order = SumOrder::gloo}, 3).expect_right();
}

TEST(Allreduce, LetsShapesHelpAndLeavesTheBits) {
  const std::vector<BucketTensor> tensors = {{{60, 70}}, {{}}, {{0, 3}}, {{16, 4, 3, 3}}, {{95}}};
  Problem(DType::bf16, 4872, {.tensors = tensors}, 4).expect_right();
}

TEST(Allreduce, SplitsLargeBuffers) {
  const std::vector<BucketTensor> tensors = {{{130, 100}}, {{5000}}, {{537}}};
  for (const std::uint64_t split : {2500, 4096, 18536}) {
    Problem(DType::f32, 18537, {.split_elements = split}, 5).expect_right();
    Problem(DType::bf16, 18537, {.mean = true, .tensors = tensors, .split_elements = split}, 6)
        .expect_right();
  }
}

TEST(Allreduce, IsRightFromStepToStepWhateverTheSizesWereBefore) {
  for (std::uint64_t step = 0; step < 6; ++step) {
    Problem(DType::bf16, 3000, {.piece_elements = 300}, 100 + step).expect_right();
    Problem(DType::f32, 20000, {.split_elements = 7000}, 200 + step / 2).expect_right();
  }
}

TEST(Allreduce, ReusesWhatAStepHasAgreedOn) {
  if (world_size() == 1) return;
  const Problem problem(DType::f32, 60, {.piece_elements = 66}, 7);
  std::vector<std::uint64_t> padding;
  for (int step = 0; step < 3; ++step) {
    Bytes buffer = problem.input;
    padding.push_back(problem.run(buffer.data()).to_owners.padding);
  }
  EXPECT_NE(padding[0], padding[1]) << "the second step has the first one's rooms";
  EXPECT_EQ(padding[1], padding[2]);
}

TEST(Allreduce, IsRightWithMoreKindsOfCallsThanAreKept) {
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t count = 1; count <= 66; ++count)
      Problem(DType::f32, count, {.route = Route::gather_merge}, count).expect_right();
  }
}

TEST(Allreduce, CountsWhatItSends) {
  const Problem problem(DType::f32, 10000, {.split_elements = 4000}, 8);
  Bytes buffer = problem.input;
  const ExchangeStats stats = problem.run(buffer.data());
  EXPECT_EQ(stats.to_owners.sent() > 0, world_size() > 1);
  EXPECT_EQ(stats.to_owners.original > 0, world_size() > 1);
  ASSERT_EQ(stats.groups.size(), 1u);
  EXPECT_EQ(stats.groups[0].original, stats.to_owners.original + stats.from_owners.original);
  EXPECT_EQ(stats.groups[0].payload, stats.to_owners.payload + stats.from_owners.payload);
}

TEST(Iallreduce, RunsSeveralInTheirOrder) {
  std::vector<Problem> problems;
  for (std::uint64_t k = 0; k < 6; ++k)
    problems.emplace_back(kFloats[k % 4], 500 * k, Options{.split_elements = 900}, 10 + k);
  std::vector<Bytes> buffers;
  std::vector<Request> requests;
  for (const Problem& problem : problems) buffers.push_back(problem.input);
  for (std::size_t k = 0; k < problems.size(); ++k)
    requests.push_back(problems[k].start(buffers[k].data()));
  for (std::size_t k = problems.size(); k-- > 0;) {
    if (k % 2 == 0) requests[k].wait();
    while (!requests[k].test()) {
    }
    EXPECT_TRUE(buffers[k] == problems[k].expected) << "request " << k;
  }
}

TEST(Iallreduce, DoesNotMixWithTheUsersTraffic) {
  const Problem problem(DType::bf16, 30000, {}, 20);
  Bytes buffer = problem.input;
  const int rank = static_cast<int>(world_rank()), size = static_cast<int>(world_size());
  int got[3] = {}, sum = 0;
  MPI_Request receives[3];
  for (int tag = 1; tag <= 3; ++tag)
    MPI_Irecv(&got[tag - 1], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
              &receives[tag - 1]);
  Request request = problem.start(buffer.data());
  for (int tag = 1; tag <= 3; ++tag)
    MPI_Send(&rank, 1, MPI_INT, (rank + 1) % size, tag, MPI_COMM_WORLD);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  request.wait();
  MPI_Waitall(3, receives, MPI_STATUSES_IGNORE);
  EXPECT_TRUE(buffer == problem.expected);
  EXPECT_EQ(sum, size * (size - 1) / 2);
  for (const int from : got) EXPECT_EQ(from, (rank + size - 1) % size);
}

TEST(Iallreduce, IsCarriedToItsEndWhenItsRequestIsDropped) {
  const Problem problem(DType::f16, 3000, {}, 21), next(DType::f16, 3000, {}, 22);
  Bytes buffer = problem.input, other = next.input;
  {
    const Request dropped = problem.start(buffer.data());
  }
  EXPECT_TRUE(buffer == problem.expected);
  Request request = problem.start((buffer = problem.input).data());
  request = next.start(other.data());
  EXPECT_TRUE(buffer == problem.expected) << "a request that is assigned to ends first";
  request.wait();
  EXPECT_TRUE(other == next.expected);
  Request nothing;
  EXPECT_TRUE(nothing.test());
}

TEST(Communicators, AreDuplicatedOnceAndFreedWithTheirOwner) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &comm);
  const int before = interposed().duplicates;
  for (std::uint64_t k = 0; k < 3; ++k) Problem(DType::f32, 100 + k, {}, k).expect_right(comm);
  EXPECT_EQ(interposed().duplicates, before + 1);
  const int frees = interposed().frees;
  MPI_Comm_free(&comm);
  EXPECT_EQ(interposed().frees, frees + 2) << "the user's and ours";
}

TEST(Communicators, MayBeFreedBeforeARequestIsDone) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  const Problem problem(DType::f32, 1000, {}, 23);
  Bytes buffer = problem.input;
  Request request = problem.start(buffer.data(), comm);
  MPI_Comm_free(&comm);
  request.wait();
  EXPECT_TRUE(buffer == problem.expected);
}

TEST(Communicators, MayBeParts) {
  const auto rank = static_cast<int>(world_rank());
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  int size = 0;
  MPI_Comm_size(half, &size);
  double value = 1;
  mpi::allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_SUM, half);
  EXPECT_EQ(value, size);
  MPI_Comm_free(&half);
}

}  // namespace
}  // namespace gradwire::testing
