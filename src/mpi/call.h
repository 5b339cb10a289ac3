// One call of a user, checked, and the part of it that all ranks must say alike.
// In: arguments of allreduce.
// Out: where the result goes and what is to be done, or the error that the peers must hear of.
// Assumes: nothing of the arguments but that the buffers have `count` elements.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "gradwire/mpi.h"

namespace gradwire::mpi {

struct Call {
  DType dtype = DType::f32;
  std::uint64_t count = 0;
  Options options = {};  ///< `tensors` filled in
  std::span<std::uint8_t> data = {};
  LossyBucket* lossy = nullptr;     ///< then it says all else
  LossyStep facts = {};             ///< of its step
  std::optional<Error> error = {};  ///< of an argument; nothing else is then of use

  /// A line for each field that all ranks must share.
  std::string agreement() const;
  ExchangeOptions exchange_options() const;
};

/// Arguments as they came.
struct Arguments {
  const void* sendbuf;
  void* recvbuf;
  MPI_Count count;
  MPI_Op op;
  const Options& options;
};

/// Copies sendbuf to recvbuf where they differ. Throws std::bad_alloc only.
Call make_call(const Arguments& arguments, DType dtype);
Call make_call(const Arguments& arguments, MPI_Datatype datatype);
Call make_call(LossyBucket& bucket, void* data, const LossyStep& facts);

}  // namespace gradwire::mpi
