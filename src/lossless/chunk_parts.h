// The common layout of coded chunks (docs/format.md 3.6): head, raw, streams, escape records.
// In: a chunk's bytes after its side bytes, and how many streams it has.
// Out: its parts.
// Assumes: 16 readable bytes behind the chunk.
#pragma once

#include "base/bytes.h"
#include "lossless/scratch.h"

namespace gradwire::lossless {

struct ChunkParts {
  ByteSpan raw;
  ByteSpan streams;  ///< all of them, one behind the other, in the order of scratch.sizes
  ByteSpan escapes;
  std::size_t escape_count = 0;
};

/// Splits what `in` has left; sizes go to scratch.sizes. `where` names the chunk in messages.
ChunkParts split_chunk(ByteReader& in, std::size_t stream_count, std::size_t escape_bytes,
                       Scratch& scratch, std::uint64_t chunk);

/// Puts scratch.side, raw, streams and escapes together behind `out`. False when a part does not
/// fit its field, or the whole is not smaller than `limit` bytes.
bool join_chunk(const Scratch& scratch, std::size_t escape_count, std::size_t limit, Bytes& out);

}  // namespace gradwire::lossless
