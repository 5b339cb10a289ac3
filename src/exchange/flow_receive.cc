// The receiving half of a flow. Nothing that a peer sends is believed before it is checked: every
// announced length is held against the most that its pieces can have, and a length that has been
// announced cannot change.

#include <algorithm>

#include "base/fail.h"
#include "base/hash.h"
#include "exchange/flow.h"

namespace gradwire::exchange {
namespace {

constexpr std::size_t kSlack = 16;  ///< readable bytes behind a payload

}  // namespace

/// True once the lengths of a message from all peers are known.
bool Flow::is_known(std::size_t message) const noexcept {
  for (unsigned p = 0; p < shape_.world; ++p)
    if (is_peer(p) && message > 0 && peers_[p].receive.size() <= message) return false;
  return true;
}

/// Of a message that comes, header and all; its length must be known.
std::size_t Flow::message_bytes(unsigned p, std::size_t message) const noexcept {
  if (!is_peer(p)) return 0;
  return message == 0 ? rooms_.receive[p] : kPieceHeader + peers_[p].receive[message];
}

void Flow::complete(ByteSpan received) {
  const std::size_t message = completed_++;
  std::size_t expected = 0;
  for (unsigned p = 0; p < shape_.world; ++p) expected += message_bytes(p, message);
  if (received.size() == expected) {
    for (unsigned p = 0; p < shape_.world; ++p) {
      const std::size_t bytes = message_bytes(p, message);  // read_message may change the room
      if (is_peer(p)) read_message(p, message, received.first(bytes));
      received = received.subspan(bytes);
    }
  } else {
    failure_.note(
        ErrorKind::transport,
        formatted("message {} of bucket {}, step {}: {} bytes came, {} were asked for", message,
                  shape_.place.bucket, shape_.place.step, received.size(), expected));
  }
  // Later headers repeat what a damaged one said, so this is seldom more than message 0.
  lost_ = completed_ == sent_ && sent_ < shape_.messages && !is_known(sent_);
}

void Flow::read_message(unsigned p, std::size_t message, ByteSpan bytes) {
  PieceHeader header;
  try {
    header = read_header(bytes.first(kPieceHeader), place(p, shape_.rank, message));
    check_lengths(p, header);
  } catch (const Error& error) {
    failure_.note(error.kind(), formatted("from rank {}: {}", p, error.what()));
    return;
  }
  learn_lengths(p, header);
  read_body(p, header, bytes.subspan(kPieceHeader));
  if (message + 1 == shape_.messages) rooms_.receive[p] = header.ahead[0];
}

/// Most bytes that may stand behind the header of a message from a peer.
std::size_t Flow::longest(unsigned p, std::size_t message) const {
  const auto bound = [&](std::size_t piece) {
    return piece < handler_.pieces_from(p) ? handler_.bound_from(p, piece) : 0;
  };
  return bound(message) + (message == 1 ? bound(0) : 0);
}

void Flow::check_lengths(unsigned p, const PieceHeader& header) const {
  const std::vector<std::uint32_t>& known = peers_[p].receive;
  const std::size_t message = header.place.message;
  const auto check = [&](const char* field, std::size_t m, std::uint64_t length) {
    const std::uint64_t most = m < shape_.messages ? longest(p, m) : 0;
    const std::uint64_t least = m < known.size() ? known[m] : 0;
    if (length >= least && length <= (m < known.size() ? least : most)) return;
    fail(ErrorKind::corrupt, "message {}: {} announces {} bytes for message {}, {} to {} allowed",
         message, field, length, m, least, m < known.size() ? least : most);
  };
  check("length", message, header.length);
  const bool last = message + 1 == shape_.messages;
  for (std::size_t k = last ? 1 : 0; k < kAhead; ++k)
    check("ahead", message + 1 + k, header.ahead[k]);
  if (last && (header.ahead[0] < kPieceHeader || header.ahead[0] > room_after(longest(p, 0))))
    fail(ErrorKind::corrupt, "message {}: a room of {} bytes, {} to {} allowed", message,
         header.ahead[0], kPieceHeader, room_after(longest(p, 0)));
  if (message > 0) return;
  const std::size_t room = rooms_.receive[p] - kPieceHeader;
  if (header.length > room && header.length - room > header.ahead[0])
    fail(ErrorKind::corrupt, "message 0: message 1 of {} bytes has no place for {} left over",
         header.ahead[0], header.length - room);
}

void Flow::learn_lengths(unsigned p, const PieceHeader& header) {
  std::vector<std::uint32_t>& known = peers_[p].receive;
  const std::size_t message = header.place.message;
  if (message == 0) known.assign(1, header.length);
  while (known.size() < std::min(message + 1 + kAhead, shape_.messages))
    known.push_back(header.ahead[known.size() - message - 1]);
}

void Flow::read_body(unsigned p, const PieceHeader& header, ByteSpan body) {
  const Place& at = header.place;
  if (header.status != 0) {
    const auto kind = static_cast<ErrorKind>(header.status);
    failure_.note(ErrorKind::transport, formatted("rank {} failed ({}) at bucket {}, step {}", p,
                                                  error_kind_name(kind), at.bucket, at.step));
  }
  if (failure_.error()) return;
  if (hash64(body) != header.checksum) {
    return failure_.note(
        ErrorKind::corrupt,
        formatted("from rank {}: message {} of bucket {}, step {}: its checksum does not match", p,
                  at.message, at.bucket, at.step));
  }
  take_payload(p, at.message, body.first(std::min<std::size_t>(header.length, body.size())));
}

void Flow::take_payload(unsigned p, std::size_t message, ByteSpan bytes) {
  const std::size_t first = peers_[p].receive[0];
  const std::size_t room = rooms_.receive[p] - kPieceHeader;
  if (message == 0 && first > room) {
    peers_[p].arrived.assign(bytes.begin(), bytes.end());  // the rest comes with message 1
    return;
  }
  if (message == 1 && first > room) {
    take_piece(p, 0, bytes.first(first - room));
    bytes = bytes.subspan(first - room);
  }
  if (!failure_.error()) take_piece(p, message, bytes);
}

/// A piece of which `bytes` are the end; behind the last one there is nothing to take.
void Flow::take_piece(unsigned p, std::size_t piece, ByteSpan bytes) {
  if (piece >= handler_.pieces_from(p)) return;
  Bytes& arrived = peers_[p].arrived;
  arrived.insert(arrived.end(), bytes.begin(), bytes.end());
  const std::size_t size = arrived.size();
  arrived.resize(size + kSlack);
  const auto note = [&](ErrorKind kind, const char* what) {
    failure_.note(kind, formatted("from rank {}: piece {} of bucket {}, step {}: {}", p, piece,
                                  shape_.place.bucket, shape_.place.step, what));
  };
  try {
    handler_.take(p, piece, ByteSpan(arrived).first(size));
  } catch (const Error& error) {
    note(error.kind(), error.what());
  } catch (const std::exception& error) {
    note(ErrorKind::limit, error.what());  // memory
  }
  arrived.clear();
}

}  // namespace gradwire::exchange
