// Runs the tests on every rank; one that fails anywhere fails the run.
#include "mpi_testing.h"

namespace {

bool is_refused_before_init() {
  float value = 0;
  try {
    gradwire::mpi::allreduce(MPI_IN_PLACE, &value, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  } catch (const gradwire::Error& error) {
    return error.kind() == gradwire::ErrorKind::invalid_argument;
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  int failed = is_refused_before_init() ? 0 : 1;
  MPI_Init(&argc, &argv);
  if (failed) std::fputs("a call before MPI_Init was not refused\n", stderr);
  failed |= RUN_ALL_TESTS();
  MPI_Finalize();
  return failed;
}
