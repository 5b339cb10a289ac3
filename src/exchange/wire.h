// What goes between two ranks: headers of pieces (docs/exchange.md 3).
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
};

struct PieceHeader {
  Place place;
  std::uint8_t status = 0;   ///< 0, or the ErrorKind that the sender has failed with
  std::uint32_t length = 0;  ///< of the payload behind this header
  /// Message 0: lengths of messages 1 to 4. Later ones: of the message four on; then, in the last
  /// message, the room of message 0 in the next step.
  std::array<std::uint32_t, kAhead> ahead{};
  std::uint64_t checksum = 0;  ///< XXH3-64 of the payload
};

void write_header(const PieceHeader& header, std::uint8_t* dst);
/// Throws `transport` when the bytes are no header, or one of another place.
PieceHeader read_header(ByteSpan bytes, const Place& expected);

}  // namespace gradwire::exchange
