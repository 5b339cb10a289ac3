// What goes between two ranks: headers of messages (docs/exchange.md 5).
// In: fields of a header.
// Out: its bytes, and back with every field checked.
// Assumes: nothing of the bytes.
#pragma once

#include <array>

#include "base/bytes.h"

namespace gradwire::exchange {

inline constexpr std::size_t kPieceHeader = 48;
inline constexpr std::size_t kAhead = 4;  ///< messages whose lengths are announced in time

/// Which message of which exchange this is.
struct Place {
  std::uint32_t bucket = 0;
  std::uint32_t step = 0;
  std::uint8_t phase = 0;
  std::uint32_t message = 0;
  /// Known to both sides and not sent; a part of the header's check.
  std::uint32_t from = 0, to = 0;
  std::uint64_t agreement = 0;  ///< hash of the settings and shapes that all ranks share
};

struct PieceHeader {
  Place place;
  std::uint8_t status = 0;   ///< 0, or the ErrorKind that the sender has failed with
  std::uint32_t length = 0;  ///< message 0: bytes of piece 0; later: bytes behind this header
  /// Lengths of the next four messages; behind the last message 0. In the last one the first is
  /// the room of message 0 in the next step.
  std::array<std::uint32_t, kAhead> ahead{};
  std::uint64_t checksum = 0;  ///< XXH3-64 of what stands behind the header
};

void write_header(const PieceHeader& header, std::uint8_t* dst);
/// Throws `corrupt` when the bytes are no sound header between these ranks, `transport` when they
/// are one of another place. `bytes` has kPieceHeader bytes.
PieceHeader read_header(ByteSpan bytes, const Place& expected);

}  // namespace gradwire::exchange
