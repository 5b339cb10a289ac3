// What peers say in an operation.

#include "base/fail.h"
#include "mpi/operation.h"

namespace gradwire::mpi {

/// Takes what a peer has sent, as far as it is wanted; what is not wanted yet stays with MPI.
bool Operation::listen(unsigned peer) {
  bool moved = false;
  while (!peers_[peer].ended) {
    const std::optional<Arrived> arrived = streams_.look(peer);
    if (!arrived || !take(peer, *arrived)) break;
    moved = true;
  }
  return moved;
}

/// False when the message has to wait until this rank has got as far as its peer.
bool Operation::take(unsigned peer, const Arrived& arrived) {
  if (arrived.tag == Tag::hello) {
    hear_hello(peer, streams_.receive_text(peer, arrived));
    return true;
  }
  if (arrived.tag == Tag::end) {
    hear_end(peer, streams_.receive_text(peer, arrived));
    return true;
  }
  Peer& from = peers_[peer];
  if (ended_) {
    streams_.discard(peer, arrived);
    ++from.messages;
    return true;
  }
  const std::uint64_t k = from.messages - completed_;
  if (k >= incoming_.size()) return false;
  Incoming& step = incoming_[k];
  if (arrived.bytes != step.bytes[peer]) {
    fail(ErrorKind::transport, "step {}: rank {} sends {} bytes, {} were asked for", from.messages,
         peer, arrived.bytes, step.bytes[peer]);
  }
  streams_.receive(peer, arrived, step.received.data() + step.offsets[peer],
                   step.requests.emplace_back(MPI_REQUEST_NULL));
  --step.missing;
  ++from.messages;
  return true;
}

void Operation::hear_hello(unsigned peer, std::string text) {
  words_[peer].hello = std::move(text);
  if (!ended_ && words_[peer].hello != words_[group_.rank].hello) end({Ending::Cause::peer});
}

void Operation::hear_end(unsigned peer, const std::string& text) {
  words_[peer].ending = Ending::parse(text);
  peers_[peer].ended = true;
  if (!ended_ && words_[peer].ending.cause != Ending::Cause::success) end({Ending::Cause::peer});
}

/// A peer that has ended sends no more. It has sent all where both count the same steps.
void Operation::check_peers() {
  for (unsigned p = 0; p < group_.world; ++p) {
    if (p != group_.rank && peers_[p].ended && peers_[p].messages == completed_)
      fail(ErrorKind::transport, "step {}: rank {} has ended before it", completed_, p);
  }
}

}  // namespace gradwire::mpi
