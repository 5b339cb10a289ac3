// Where the next sequence of a chunk begins.
// In: the chunk's streams and sizes.
// Out: a cursor that moves on as sequences are decoded.
// Assumes: the sizes sum to the bytes of the streams.
#pragma once

#include <cstdint>
#include <span>

namespace gradwire::lossless {

struct SequenceCursor {
  const std::uint8_t* at;
  std::span<const std::uint16_t> sizes;
};

}  // namespace gradwire::lossless
