// The sending half of a flow.

#include "exchange/flow.h"

#include <algorithm>

#include "base/hash.h"

namespace gradwire::exchange {

Flow::Flow(const FlowShape& shape, PieceHandler& handler, Rooms& rooms, Failure& failure,
           WayBytes& bytes)
    : shape_(shape),
      handler_(handler),
      rooms_(rooms),
      failure_(failure),
      bytes_(bytes),
      peers_(shape.world) {}

Place Flow::place(unsigned from, unsigned to, std::size_t message) const noexcept {
  Place place = shape_.place;
  place.message = static_cast<std::uint32_t>(message);
  place.from = from;
  place.to = to;
  return place;
}

std::optional<ExchangeStep> Flow::next(std::uint64_t id) {
  if (lost_ || sent_ == shape_.messages || !is_known(sent_)) return std::nullopt;
  ExchangeStep step;
  step.id = id;
  for (unsigned p = 0; p < shape_.world; ++p) {
    const std::size_t before = step.send.size();
    if (is_peer(p)) append_message(p, sent_, step.send);
    step.send_bytes.push_back(step.send.size() - before);
    step.receive_bytes.push_back(message_bytes(p, sent_));
  }
  ++sent_;
  return step;
}

/// The payload of a piece, encoded when it is first asked for; empty behind the last one and once
/// this rank has failed.
const Bytes& Flow::payload(unsigned p, std::size_t piece) {
  Peer& peer = peers_[p];
  while (peer.first + peer.encoded.size() <= piece) {
    const std::size_t next = peer.first + peer.encoded.size();
    Bytes bytes;
    if (next < handler_.pieces_to(p) && !failure_.error())
      failure_.attempt([&] { bytes = handler_.encode(p, next); });
    peer.encoded.push_back(std::move(bytes));
  }
  return peer.encoded[piece - peer.first];
}

/// Fixes the lengths of messages up to `message`. What has been fixed is sent, whatever happens.
void Flow::fix_lengths(unsigned p, std::size_t message) {
  std::vector<std::uint32_t>& send = peers_[p].send;
  while (send.size() <= std::min(message, shape_.messages - 1)) {
    const std::size_t next = send.size();
    std::size_t bytes = payload(p, next).size();
    if (next == 1) {  // what piece 0 has left over
      const std::size_t room = rooms_.send[p] - kPieceHeader;
      bytes += payload(p, 0).size() - std::min(payload(p, 0).size(), room);
    }
    send.push_back(static_cast<std::uint32_t>(bytes));  // ExchangeBucket bounds pieces
  }
}

void Flow::append_message(unsigned p, std::size_t message, Bytes& out) {
  fix_lengths(p, message + kAhead);
  PieceHeader header = header_of(p, message);
  const std::size_t at = out.size();
  out.resize(at + kPieceHeader);
  if (message == 0) {
    append_start(p, out);
  } else {
    append_rest(p, message, out);
  }
  header.checksum = hash64(ByteSpan(out).subspan(at + kPieceHeader));
  write_header(header, out.data() + at);
  bytes_.headers += kPieceHeader;
  if (message + 1 == shape_.messages) rooms_.send[p] = header.ahead[0];
}

PieceHeader Flow::header_of(unsigned p, std::size_t message) {
  const std::vector<std::uint32_t>& send = peers_[p].send;
  PieceHeader header;
  header.place = place(shape_.rank, p, message);
  header.length = send[message];
  for (std::size_t k = 0; k < kAhead && message + 1 + k < shape_.messages; ++k)
    header.ahead[k] = send[message + 1 + k];
  if (message + 1 == shape_.messages)
    header.ahead[0] = static_cast<std::uint32_t>(room_after(send[0]));
  if (failure_.error()) header.status = static_cast<std::uint8_t>(failure_.error()->kind());
  return header;
}

/// Message 0: as much of piece 0 as its room takes, and zeros.
void Flow::append_start(unsigned p, Bytes& out) {
  const Bytes& first = payload(p, 0);
  const std::size_t room = rooms_.send[p] - kPieceHeader;
  const std::size_t filled = std::min(first.size(), room);
  out.insert(out.end(), first.begin(), first.begin() + static_cast<std::ptrdiff_t>(filled));
  out.resize(out.size() + room - filled);
  bytes_.payload += filled;
  bytes_.padding += room - filled;
}

/// A later message: its piece, message 1 also what piece 0 has left. They are not needed again.
void Flow::append_rest(unsigned p, std::size_t message, Bytes& out) {
  Peer& peer = peers_[p];
  const std::size_t before = out.size();
  if (message == 1) {
    const Bytes& first = payload(p, 0);
    const std::size_t room = rooms_.send[p] - kPieceHeader;
    const auto filled = static_cast<std::ptrdiff_t>(std::min(first.size(), room));
    out.insert(out.end(), first.begin() + filled, first.end());
  }
  const Bytes& own = payload(p, message);
  out.insert(out.end(), own.begin(), own.end());
  bytes_.payload += out.size() - before;
  for (; peer.first <= message; ++peer.first) peer.encoded.pop_front();
}

}  // namespace gradwire::exchange
