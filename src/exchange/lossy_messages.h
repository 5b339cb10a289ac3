// One message from every rank to all others, as a round.
// In: this rank's message; what every rank's takes at most.
// Out: an exchange; then the messages of all ranks, its own among them.
// Assumes: what is given by reference outlives it.
#pragma once

#include <map>

#include "exchange/flows.h"
#include "exchange/lossy_work.h"

namespace gradwire::exchange {

/// Rooms of rounds, by their number: they last from step to step.
using RoundRooms = std::map<std::size_t, Rooms>;

class Messages final : public Flows {
 public:
  /// bounds: by rank. Throws limit for one over 1 GiB.
  Messages(const FlowShape& shape, const Bytes& own, const std::vector<std::size_t>& bounds,
           Rooms& rooms, PiecePayloads& arrived);
};

/// Bytes of message 0 in a first step.
std::uint32_t first_room(std::size_t bound) noexcept;

}  // namespace gradwire::exchange
