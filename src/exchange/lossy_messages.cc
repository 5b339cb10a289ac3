#include "exchange/lossy_messages.h"

#include <algorithm>

#include "base/fail.h"

namespace gradwire::exchange {
namespace {

constexpr std::size_t kFirstRoom = 4096;
constexpr std::size_t kMost = std::size_t{1} << 30;

class MessageHandler final : public PieceHandler {
 public:
  MessageHandler(const Bytes& own, const std::vector<std::size_t>& bounds, PiecePayloads& arrived)
      : own_(own), bounds_(bounds), arrived_(arrived) {}

  std::size_t pieces_to(unsigned) const override { return 1; }
  std::size_t pieces_from(unsigned) const override { return 1; }
  std::size_t bound_from(unsigned peer, std::size_t) const override { return bounds_[peer]; }
  Bytes encode(unsigned, std::size_t) override { return own_; }
  void take(unsigned peer, std::size_t, ByteSpan payload) override {
    arrived_.take(peer, static_cast<unsigned>(bounds_.size()), payload);
  }

 private:
  Bytes own_;
  std::vector<std::size_t> bounds_;
  PiecePayloads& arrived_;
};

void make_rooms(const FlowShape& shape, const std::vector<std::size_t>& bounds, Rooms& rooms) {
  if (!rooms.send.empty()) return;
  for (unsigned p = 0; p < shape.world; ++p) {
    rooms.send.push_back(first_room(bounds[shape.rank]));
    rooms.receive.push_back(first_room(bounds[p]));
  }
}

}  // namespace

std::uint32_t first_room(std::size_t bound) noexcept {
  return static_cast<std::uint32_t>(std::min(kPieceHeader + bound, kFirstRoom));
}

Messages::Messages(const FlowShape& shape, const Bytes& own, const std::vector<std::size_t>& bounds,
                   Rooms& rooms, PiecePayloads& arrived) {
  if (const std::size_t most = *std::ranges::max_element(bounds); most > kMost)
    fail(ErrorKind::limit, "a message may take {} bytes, {} allowed: make the bucket smaller", most,
         kMost);
  arrived.take(shape.rank, shape.world, own);
  if (shape.world == 1) return;
  make_rooms(shape, bounds, rooms);
  add(shape, std::make_unique<MessageHandler>(own, bounds, arrived), rooms,
      &ExchangeStats::to_owners);
}

}  // namespace gradwire::exchange
