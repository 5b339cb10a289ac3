#include "exchange/flow.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/fail.h"
#include "base/hash.h"

namespace gradwire::exchange {
namespace {

constexpr std::size_t kSlack = 16;  ///< readable bytes behind a payload

std::uint32_t checked_length(std::size_t bytes) {
  if (bytes > UINT32_MAX)
    fail(ErrorKind::limit, "a piece of {} bytes is more than 4 GiB: choose fewer elements", bytes);
  return static_cast<std::uint32_t>(bytes);
}

}  // namespace

Flow::Flow(const FlowShape& shape, PieceHandler& handler, Rooms& rooms, Failure& failure,
           ExchangeStats& stats, std::uint64_t& payload_bytes)
    : shape_(shape),
      handler_(handler),
      rooms_(rooms),
      failure_(failure),
      stats_(stats),
      payload_bytes_(payload_bytes),
      peers_(shape.world) {
  for (Peer& peer : peers_) {
    peer.send.reserve(shape.messages);
    peer.receive.assign(shape.messages, 0);
  }
}

Place Flow::place(std::size_t message) const noexcept {
  Place place = shape_.place;
  place.message = static_cast<std::uint32_t>(message);
  return place;
}

/// True once the lengths of a message's bytes from all peers are known.
bool Flow::is_known(std::size_t message) const noexcept {
  if (message == 0) return true;
  return completed_ >= (message <= kAhead ? 1 : message - kAhead + 1);
}

std::optional<ExchangeStep> Flow::next(std::uint64_t id) {
  if (lost_ || sent_ == shape_.messages || !is_known(sent_)) return std::nullopt;
  ExchangeStep step;
  step.id = id;
  for (unsigned p = 0; p < shape_.world; ++p) {
    const std::size_t before = step.send.size();
    std::size_t receive = 0;
    if (p != shape_.rank) {
      append_message(p, sent_, step.send);
      receive = sent_ == 0 ? rooms_.receive[p] : kPieceHeader + peers_[p].receive[sent_];
    }
    step.send_bytes.push_back(step.send.size() - before);
    step.receive_bytes.push_back(receive);
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
    if (next < handler_.pieces_to(p) && !failure_.error()) {
      try {
        bytes = handler_.encode(p, next);
      } catch (const Error& error) {
        failure_.note(error);
        bytes.clear();
      }
    }
    peer.encoded.push_back(std::move(bytes));
  }
  return peer.encoded[piece - peer.first];
}

/// Fixes the payload lengths of messages up to `message`.
void Flow::know_send_lengths(unsigned p, std::size_t message) {
  std::vector<std::uint32_t>& send = peers_[p].send;
  const std::size_t room = rooms_.send[p] - kPieceHeader;
  while (send.size() <= std::min(message, shape_.messages - 1)) {
    const std::size_t next = send.size();
    std::size_t bytes = payload(p, next).size();
    if (next == 1) bytes += payload(p, 0).size() - std::min(payload(p, 0).size(), room);
    send.push_back(checked_length(bytes));
  }
}

std::uint32_t Flow::next_room(unsigned p) const noexcept {
  const std::uint32_t piece = peers_[p].send.empty() ? 0 : peers_[p].send[0];
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(kPieceHeader + std::uint64_t{piece} + piece / 16 + 64, UINT32_MAX));
}

void Flow::append_message(unsigned p, std::size_t message, Bytes& out) {
  know_send_lengths(p, message + kAhead);
  Peer& peer = peers_[p];
  const bool last = message + 1 == shape_.messages;
  const std::size_t room = rooms_.send[p] - kPieceHeader;
  PieceHeader header;
  header.place = place(message);
  header.length = peer.send[message];
  const auto length_of = [&](std::size_t m) {
    return m < shape_.messages ? peer.send[m] : std::uint32_t{0};
  };
  for (std::size_t k = 0; k < kAhead && message == 0; ++k) header.ahead[k] = length_of(1 + k);
  if (message > 0) header.ahead[0] = length_of(message + kAhead);
  if (last) header.ahead[1] = next_room(p);
  if (failure_.error()) header.status = static_cast<std::uint8_t>(failure_.error()->kind());

  const std::size_t at = out.size();
  out.resize(at + kPieceHeader);
  if (message == 0) {
    append_start(p, room, out);
  } else {
    append_rest(p, message, room, out);
  }
  header.checksum = hash64(ByteSpan(out).subspan(at + kPieceHeader));
  payload_bytes_ += out.size() - at - kPieceHeader;
  if (message == 0) {
    stats_.padding += at + rooms_.send[p] - out.size();
    out.resize(at + rooms_.send[p], 0);
  }
  stats_.headers += kPieceHeader;
  write_header(header, out.data() + at);
  if (last) rooms_.send[p] = header.ahead[1];
}

/// Message 0: as much of piece 0 as its room takes.
void Flow::append_start(unsigned p, std::size_t room, Bytes& out) {
  const Bytes& first = payload(p, 0);
  out.insert(out.end(), first.begin(),
             first.begin() + static_cast<std::ptrdiff_t>(std::min(first.size(), room)));
}

/// A later message: its piece, message 1 also what piece 0 has left. They are not needed again.
void Flow::append_rest(unsigned p, std::size_t message, std::size_t room, Bytes& out) {
  if (message == 1 && payload(p, 0).size() > room) {
    const Bytes& first = payload(p, 0);
    out.insert(out.end(), first.begin() + static_cast<std::ptrdiff_t>(room), first.end());
  }
  const Bytes& own = payload(p, message);
  out.insert(out.end(), own.begin(), own.end());
  Peer& peer = peers_[p];
  while (peer.first <= message) {
    peer.encoded.pop_front();
    ++peer.first;
  }
}

void Flow::complete(ByteSpan received) {
  std::size_t at = 0;
  const std::size_t message = completed_;
  for (unsigned p = 0; p < shape_.world && !lost_; ++p) {
    if (p == shape_.rank) continue;
    const std::size_t bytes =
        message == 0 ? rooms_.receive[p] : kPieceHeader + peers_[p].receive[message];
    if (received.size() - at < bytes) {
      failure_.note(Error(ErrorKind::transport,
                          fmt::format("message {} of bucket {}: {} bytes came, {} were announced",
                                      message, shape_.place.bucket, received.size(), at + bytes)));
      lost_ = true;
      return;
    }
    read_message(p, message, received.subspan(at, bytes));
    at += bytes;
  }
  ++completed_;
}

void Flow::read_message(unsigned p, std::size_t message, ByteSpan bytes) {
  PieceHeader header;
  try {
    header = read_header(bytes.first(kPieceHeader), place(message));
  } catch (const Error& error) {
    failure_.note(Error(error.kind(), fmt::format("from rank {}: {}", p, error.what())));
    lost_ = true;
    return;
  }
  std::vector<std::uint32_t>& receive = peers_[p].receive;
  const auto announce = [&](std::size_t m, std::uint32_t length) {
    if (m < shape_.messages) receive[m] = length;
  };
  if (message == 0) {
    receive[0] = header.length;
    for (std::size_t k = 0; k < kAhead; ++k) announce(1 + k, header.ahead[k]);
  } else {
    announce(message + kAhead, header.ahead[0]);
  }
  if (header.status != 0) {
    const auto kind = static_cast<ErrorKind>(header.status);
    failure_.note(
        Error(ErrorKind::transport,
              fmt::format("rank {} failed ({}) at bucket {}, step {}", p, error_kind_name(kind),
                          shape_.place.bucket, shape_.place.step)));
  }
  const std::size_t filled = message == 0
                                 ? std::min<std::size_t>(header.length, bytes.size() - kPieceHeader)
                                 : bytes.size() - kPieceHeader;
  const ByteSpan payload = bytes.subspan(kPieceHeader, filled);
  if (!failure_.error() && hash64(payload) != header.checksum) {
    failure_.note(Error(ErrorKind::corrupt,
                        fmt::format("from rank {}: message {} of bucket {}, step {}: its checksum "
                                    "does not match",
                                    p, message, shape_.place.bucket, shape_.place.step)));
  }
  if (!failure_.error()) take_payload(p, message, payload);
  // Only now: the room of this step's message 0 has been used.
  if (message + 1 == shape_.messages) rooms_.receive[p] = header.ahead[1];
}

void Flow::take_payload(unsigned p, std::size_t message, ByteSpan bytes) {
  Peer& peer = peers_[p];
  const auto take = [&](std::size_t piece, ByteSpan payload) {
    if (piece >= handler_.pieces_from(p)) return;
    peer.arrived.insert(peer.arrived.end(), payload.begin(), payload.end());
    const std::size_t size = peer.arrived.size();
    peer.arrived.resize(size + kSlack, 0);
    try {
      handler_.take(p, piece, ByteSpan(peer.arrived).first(size));
    } catch (const Error& error) {
      failure_.note(Error(error.kind(), fmt::format("from rank {}: piece {} of bucket {}: {}", p,
                                                    piece, shape_.place.bucket, error.what())));
    }
    peer.arrived.clear();
  };
  if (message == 0) {
    if (bytes.size() == peer.receive[0]) return take(0, bytes);
    peer.arrived.assign(bytes.begin(), bytes.end());  // the rest comes with message 1
    return;
  }
  if (message == 1 && !peer.arrived.empty()) {
    const std::size_t rest =
        std::min<std::size_t>(peer.receive[0] - peer.arrived.size(), bytes.size());
    take(0, bytes.first(rest));
    bytes = bytes.subspan(rest);
  }
  take(message, bytes);
}

}  // namespace gradwire::exchange
