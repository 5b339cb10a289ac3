// What one all-reduce sends to each peer, and what comes from it, in the order of sending.
// In: texts and steps of an exchange.
// Out: messages of peers, looked at before they are received.
// Assumes: a communicator of its own, one thread. Nothing is received before it is asked for, so
// that a rank can stop at any time and still take what is on its way.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "gradwire/exchange.h"
#include "mpi/calls.h"

namespace gradwire::mpi {

/// Every stream is one hello, any number of data messages, one end.
enum class Tag : int { hello = 1, data = 2, end = 3 };

struct Arrived {
  Tag tag;
  std::size_t bytes;
};

class Streams {
 public:
  Streams(MPI_Comm comm, unsigned rank, unsigned world) : comm_(comm), rank_(rank), world_(world) {}

  void send_to_all(Tag tag, const std::string& text);
  void send(ExchangeStep step);

  /// The next message of a peer, if there is one; it stays where it is.
  std::optional<Arrived> look(unsigned peer) const;
  std::string receive_text(unsigned peer, const Arrived& arrived);
  /// Starts; `into` must stay until `request` has ended.
  void receive(unsigned peer, const Arrived& arrived, std::uint8_t* into, MPI_Request& request);
  void discard(unsigned peer, const Arrived& arrived);

  /// Frees what has left. True when all that was sent has, and all that was discarded has come.
  bool is_quiet();

 private:
  struct Buffer {
    Bytes bytes;
    std::vector<MPI_Request> requests;
  };
  Buffer& keep(Bytes bytes, std::size_t requests);
  void send(const std::uint8_t* data, std::size_t bytes, unsigned peer, Tag tag, Buffer& buffer);

  MPI_Comm comm_;
  unsigned rank_, world_;
  std::deque<Buffer> buffers_;
};

}  // namespace gradwire::mpi
