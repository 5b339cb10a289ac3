// One way of an exchange: pieces to and from every peer, in messages whose lengths both sides know.
// In: a source of payloads and a sink for what comes.
// Out: steps of a transport.
// Assumes: source and sink outlive it. docs/exchange.md 4 and 5 say why lengths run four messages
// ahead and what the room of message 0 is.
#pragma once

#include <deque>

#include "exchange/roles.h"
#include "exchange/wire.h"
#include "gradwire/exchange.h"

namespace gradwire::exchange {

/// Makes and takes payloads.
class PieceHandler {
 public:
  virtual ~PieceHandler() = default;
  /// How many pieces go to a peer, and come from it.
  virtual std::size_t pieces_to(unsigned peer) const = 0;
  virtual std::size_t pieces_from(unsigned peer) const = 0;
  /// Most bytes of a piece that comes.
  virtual std::size_t bound_from(unsigned peer, std::size_t piece) const = 0;
  virtual Bytes encode(unsigned peer, std::size_t piece) = 0;
  /// `payload` has 16 readable bytes behind it. May throw.
  virtual void take(unsigned peer, std::size_t piece, ByteSpan payload) = 0;
};

/// Bytes of message 0 by peer: what both sides have agreed on a step before.
struct Rooms {
  std::vector<std::uint32_t> send, receive;
};

/// Room for the next step's piece 0 when this step's had `bytes` bytes.
constexpr std::uint64_t room_after(std::uint64_t bytes) noexcept {
  return kPieceHeader + bytes + bytes / 16 + 64;
}

/// The first failure that a rank has seen.
class Failure {
 public:
  void note(ErrorKind kind, const std::string& message) {
    if (!error_) error_.emplace(kind, message);
  }
  /// Does some work, and notes what it throws.
  template <typename Work>
  void attempt(const Work& work) {
    try {
      work();
    } catch (const Error& error) {
      note(error.kind(), error.what());
    } catch (const std::exception& error) {
      note(ErrorKind::limit, error.what());  // memory
    }
  }
  const std::optional<Error>& error() const noexcept { return error_; }

 private:
  std::optional<Error> error_;
};

struct FlowShape {
  Place place;
  unsigned rank = 0, world = 1;
  std::size_t messages = 2;  ///< at least 2, the same on all ranks
  const Roles& roles;        ///< ranks that are not linked have nothing to say to each other
};

class Flow {
 public:
  Flow(const FlowShape& shape, PieceHandler& handler, Rooms& rooms, Failure& failure,
       WayBytes& bytes);

  std::optional<ExchangeStep> next(std::uint64_t id);
  void complete(ByteSpan received);
  std::size_t messages() const noexcept { return shape_.messages; }
  std::size_t posted() const noexcept { return sent_; }
  std::size_t completed() const noexcept { return completed_; }
  /// All messages have come, or what came cannot be followed any more.
  bool done() const noexcept { return lost_ || completed_ == shape_.messages; }
  /// The lengths of a peer's messages are not known any more: no step can follow.
  bool lost() const noexcept { return lost_; }

 private:
  struct Peer {
    std::deque<Bytes> encoded;  ///< payloads of pieces from `first` on
    std::size_t first = 0;
    std::vector<std::uint32_t> send;     ///< bytes behind the headers of messages, as far as fixed
    std::vector<std::uint32_t> receive;  ///< the same of what comes, as far as announced
    Bytes arrived;                       ///< the piece that is coming in
  };

  Place place(unsigned from, unsigned to, std::size_t message) const noexcept;
  bool is_peer(unsigned p) const noexcept { return shape_.roles.linked(shape_.rank, p); }

  // Sending (flow.cc).
  const Bytes& payload(unsigned peer, std::size_t piece);
  void fix_lengths(unsigned peer, std::size_t message);
  void append_message(unsigned peer, std::size_t message, Bytes& out);
  PieceHeader header_of(unsigned peer, std::size_t message);
  void append_start(unsigned peer, Bytes& out);
  void append_rest(unsigned peer, std::size_t message, Bytes& out);

  // Receiving (flow_receive.cc).
  bool is_known(std::size_t message) const noexcept;
  std::size_t message_bytes(unsigned peer, std::size_t message) const noexcept;
  std::size_t longest(unsigned peer, std::size_t message) const;
  void check_lengths(unsigned peer, const PieceHeader& header) const;
  void learn_lengths(unsigned peer, const PieceHeader& header);
  void read_message(unsigned peer, std::size_t message, ByteSpan bytes);
  void read_body(unsigned peer, const PieceHeader& header, ByteSpan body);
  void take_payload(unsigned peer, std::size_t message, ByteSpan bytes);
  void take_piece(unsigned peer, std::size_t piece, ByteSpan bytes);

  FlowShape shape_;
  PieceHandler& handler_;
  Rooms& rooms_;
  Failure& failure_;
  WayBytes& bytes_;
  std::vector<Peer> peers_;
  std::size_t sent_ = 0, completed_ = 0;
  bool lost_ = false;
};

}  // namespace gradwire::exchange
