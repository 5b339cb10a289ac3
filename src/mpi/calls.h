// Calls of MPI whose failure is an exception.
// In: what a call of MPI returned, and its name.
// Out: nothing, or Broken.
// Assumes: the communicator returns errors (MPI_ERRORS_RETURN).
#pragma once

#include <cstddef>
#include <mpi.h>

#include "gradwire/error.h"

namespace gradwire::mpi {

/// MPI itself has failed, or this rank cannot follow the others any more: the communicator is of no
/// use from here on.
class Broken : public Error {
 public:
  explicit Broken(const std::string& message) : Error(ErrorKind::transport, message) {}
};

void check(int code, const char* call);

/// A length for MPI; throws `limit`.
int to_int(std::size_t bytes);

/// True when all of them have ended; they are then null.
bool all_ended(MPI_Request* requests, std::size_t n);

}  // namespace gradwire::mpi
