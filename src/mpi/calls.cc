#include "mpi/calls.h"

#include <array>
#include <climits>

#include "base/fail.h"

namespace gradwire::mpi {

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw Broken(formatted("{} failed: {}", call, text.data()));
}

int to_int(std::size_t bytes) {
  if (bytes > INT_MAX)
    fail(ErrorKind::limit, "piece_elements: a message of {} bytes, MPI allows {}", bytes, INT_MAX);
  return static_cast<int>(bytes);
}

bool all_ended(MPI_Request* requests, std::size_t n) {
  int ended = 0;
  check(MPI_Testall(to_int(n), requests, &ended, MPI_STATUSES_IGNORE), "MPI_Testall");
  return ended != 0;
}

}  // namespace gradwire::mpi
