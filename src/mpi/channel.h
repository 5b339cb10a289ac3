// The library's own communicator beside a user's, and the operations on it.
// In: a user's communicator; operations.
// Out: operations carried out one after the other.
// Assumes: MPI is initialized; all ranks start the same operations in the same order; one thread.
#pragma once

#include <deque>
#include <memory>

#include "mpi/operation.h"

namespace gradwire::mpi {

class Channel {
 public:
  /// Collective: duplicates the communicator.
  explicit Channel(MPI_Comm comm);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// The channel of a communicator, made at its first use and kept as an attribute of it.
  static std::shared_ptr<Channel> of(MPI_Comm comm);

  std::shared_ptr<Operation> start(Call call);
  /// Moves the operation whose turn it is. False when nothing could be done without waiting.
  bool progress();

 private:
  void break_all(const Error& error);

  Group group_;
  std::deque<std::shared_ptr<Operation>> queue_;
  Plans plans_;
  std::uint32_t number_ = 0;  ///< operations that are over; it names the step in headers
  std::optional<Error> broken_;
  std::deque<std::shared_ptr<Operation>> abandoned_;  ///< MPI may still use their memory
};

}  // namespace gradwire::mpi
