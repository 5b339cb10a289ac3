// One data-parallel step over MPI: every rank has a gradient, all get the same mean.
//   mpirun -n 4 build/examples/mpi_average
// The mean is compared with MPI_Allreduce, within rounding, and over the ranks, bit by bit.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <mpi.h>
#include <random>
#include <vector>

#include "gradwire/mpi.h"

namespace {

constexpr std::uint64_t kRows = 96, kColumns = 64;

int rank_of(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}

int size_of(MPI_Comm comm) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  return size;
}

/// Something like the gradient of a weight matrix: each row of it has a scale of its own.
std::vector<float> make_gradient(unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values;
  for (std::uint64_t row = 0; row < kRows; ++row) {
    const float scale = 1e-3F / static_cast<float>(1 + row % 17);
    for (std::uint64_t column = 0; column < kColumns; ++column)
      values.push_back(scale * normal(random));
  }
  return values;
}

/// Two sums of W floats in any order differ by at most 2 (W - 1) roundings of the sum of their
/// magnitudes; the mean rounds once more.
bool is_near_the_plain_mean(const std::vector<float>& gradient, const std::vector<float>& mean) {
  const auto world = static_cast<float>(size_of(MPI_COMM_WORLD));
  const int count = static_cast<int>(gradient.size());
  std::vector<float> sum(gradient.size()), magnitudes(gradient.size()), largest(gradient.size());
  for (std::size_t i = 0; i < gradient.size(); ++i) magnitudes[i] = std::fabs(gradient[i]);
  MPI_Allreduce(gradient.data(), sum.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(magnitudes.data(), largest.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const float allowed = 2 * world * 0x1p-24F * largest[i] / world + 0x1p-148F;
    if (!(std::fabs(mean[i] - sum[i] / world) <= allowed)) return false;
  }
  return true;
}

bool is_the_same_on_all_ranks(const std::vector<float>& mean) {
  const std::size_t bytes = mean.size() * sizeof(float);
  std::vector<float> first = mean;
  MPI_Bcast(first.data(), static_cast<int>(bytes), MPI_BYTE, 0, MPI_COMM_WORLD);
  int same = std::memcmp(mean.data(), first.data(), bytes) == 0;
  MPI_Allreduce(MPI_IN_PLACE, &same, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return same != 0;
}

bool run() {
  const std::vector<float> gradient =
      make_gradient(1 + static_cast<unsigned>(rank_of(MPI_COMM_WORLD)));
  std::vector<float> mean(gradient.size());
  gradwire::mpi::Options options{.mean = true};
  options.tensors = {{{kRows, kColumns}}};  // a matrix takes fewer bytes than a vector

  gradwire::mpi::Request request =
      gradwire::mpi::iallreduce(gradient.data(), mean.data(), static_cast<MPI_Count>(mean.size()),
                                MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, options);
  while (!request.test()) {
    // Here a program computes the next gradient, a little at a time.
  }
  const bool near = is_near_the_plain_mean(gradient, mean);
  const bool same = is_the_same_on_all_ranks(mean);
  if (rank_of(MPI_COMM_WORLD) == 0) {
    const gradwire::ExchangeStats& stats = request.stats();
    std::cout << "mean of " << mean.size() << " values over " << size_of(MPI_COMM_WORLD)
              << " ranks: " << stats.to_owners.original + stats.from_owners.original
              << " bytes sent as " << stats.to_owners.sent() + stats.from_owners.sent() << '\n'
              << "all ranks have " << (same ? "the same bits" : "DIFFERENT bits") << ", "
              << (near ? "near" : "DIFFERENT from") << " those of MPI_Allreduce\n";
  }
  return near && same;
}

int run_and_report() {
  try {
    return run() ? EXIT_SUCCESS : EXIT_FAILURE;
  } catch (const gradwire::Error& error) {  // the same one on every rank
    std::cerr << gradwire::error_kind_name(error.kind()) << ": " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int result = run_and_report();
  MPI_Finalize();
  return result;
}
