// Calls of MPI, caught on their way by MPI's own profiling interface: they are counted, and
// messages can be damaged as a link would.
#include <deque>
#include <map>

#include "mpi_testing.h"

namespace gradwire::testing {
namespace {

constexpr int kDataTag = 2;  ///< docs/mpi.md

std::map<int, std::uint64_t>& messages() {
  static std::map<int, std::uint64_t> counts;
  return counts;
}

}  // namespace

Interposed& interposed() {
  static Interposed instance;
  return instance;
}

void tamper_with(std::function<void(unsigned, std::uint64_t, Bytes&)> tamper) {
  interposed().tamper = std::move(tamper);
  messages().clear();
}

}  // namespace gradwire::testing

extern "C" {

int MPI_Isend(const void* data, int count, MPI_Datatype datatype, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
  using namespace gradwire::testing;
  if (tag != kDataTag || !interposed().tamper)
    return PMPI_Isend(data, count, datatype, to, tag, comm, request);
  static std::deque<Bytes> kept;  // until the program ends, as MPI reads them later
  const auto* bytes = static_cast<const std::uint8_t*>(data);
  Bytes& sent = kept.emplace_back(bytes, bytes + count);
  interposed().tamper(static_cast<unsigned>(to), messages()[to]++, sent);
  return PMPI_Isend(sent.data(), static_cast<int>(sent.size()), datatype, to, tag, comm, request);
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* copy) {
  ++gradwire::testing::interposed().duplicates;
  return PMPI_Comm_dup(comm, copy);
}

int MPI_Comm_free(MPI_Comm* comm) {
  ++gradwire::testing::interposed().frees;
  return PMPI_Comm_free(comm);
}
}
