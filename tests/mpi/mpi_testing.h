// What tests of gradwire::mpi share. Each rank runs all of them; values of all ranks are drawn on
// every rank, so that each knows what must come out.
// In: seeds, which are the same on all ranks.
// Out: buffers, expected bytes, errors as all ranks see them.
// Assumes: MPI runs. Expectations do not end a test, as the other ranks go on.
#pragma once

#include <atomic>
#include <functional>

#include <gmock/gmock.h>

#include "exchange_testing.h"
#include "gradwire/mpi.h"

namespace gradwire::testing {

inline unsigned world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return static_cast<unsigned>(rank);
}

inline unsigned world_size() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return static_cast<unsigned>(size);
}

/// A buffer of this rank and what an all-reduce makes of it.
struct Problem {
  DType dtype = DType::f32;
  std::uint64_t count = 0;
  mpi::Options options = {};
  Bytes input = {}, expected = {};

  Problem(DType type, std::uint64_t n, const mpi::Options& chosen, std::uint64_t seed)
      : dtype(type), count(n), options(chosen) {
    std::vector<BucketTensor> tensors = options.tensors;
    if (tensors.empty()) tensors = {{{n}}};
    std::vector<Bytes> inputs;
    for (unsigned r = 0; r < world_size(); ++r)
      inputs.push_back(draw_values(dtype, tensors, 1000 * seed + r));
    input = inputs[world_rank()];
    expected = reference(dtype, inputs, options.order, options.mean);
  }
  MPI_Count mpi_count() const { return static_cast<MPI_Count>(count); }
  mpi::Request start(void* buffer, MPI_Comm comm = MPI_COMM_WORLD) const {
    return mpi::iallreduce(MPI_IN_PLACE, buffer, mpi_count(), dtype, MPI_SUM, comm, options);
  }
  ExchangeStats run(void* buffer, MPI_Comm comm = MPI_COMM_WORLD) const {
    return mpi::allreduce(MPI_IN_PLACE, buffer, mpi_count(), dtype, MPI_SUM, comm, options);
  }
  void expect_right(MPI_Comm comm = MPI_COMM_WORLD) const {
    Bytes buffer = input;
    run(buffer.data(), comm);
    EXPECT_TRUE(buffer == expected) << dtype_name(dtype) << ", " << count << " elements";
  }
};

/// The message of an error, if a call threw one that all ranks have alike.
template <typename Function>
std::string common_error(ErrorKind kind, Function call) {
  std::string text = "no error";
  ErrorKind found = kind;
  try {
    call();
  } catch (const Error& error) {
    text = error.what();
    found = error.kind();
  }
  EXPECT_STREQ(error_kind_name(found), error_kind_name(kind)) << text;
  std::string first = text;
  first.resize(1000);
  MPI_Bcast(first.data(), static_cast<int>(first.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
  EXPECT_EQ(text, std::string(first.c_str())) << "ranks have other errors";
  return text;
}

/// What MPI was asked for, and what is to become of messages (interposed.cc).
struct Interposed {
  std::atomic<int> duplicates{0}, frees{0};
  /// May change or cut a message of the data streams; `message` counts those to one rank.
  std::function<void(unsigned to, std::uint64_t message, Bytes& bytes)> tamper;
};
Interposed& interposed();
/// Starts to count messages anew, with another tampering.
void tamper_with(std::function<void(unsigned, std::uint64_t, Bytes&)> tamper);

}  // namespace gradwire::testing
