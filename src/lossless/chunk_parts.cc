#include "lossless/chunk_parts.h"

#include <numeric>

#include "base/fail.h"

namespace gradwire::lossless {

ChunkParts split_chunk(ByteReader& in, std::size_t stream_count, std::size_t escape_bytes,
                       Scratch& scratch, std::uint64_t chunk) {
  const std::size_t at = in.offset();
  const std::size_t raw_bytes = in.u32("raw_bytes");
  scratch.sizes.resize(stream_count);
  for (std::uint16_t& size : scratch.sizes) size = in.u16("size");
  ChunkParts parts;
  parts.escape_count = in.u16("escapes");
  const std::size_t streams =
      std::accumulate(scratch.sizes.begin(), scratch.sizes.end(), std::size_t{0});
  const std::size_t expected = raw_bytes + streams + parts.escape_count * escape_bytes;
  if (expected != in.left()) {
    fail(ErrorKind::corrupt,
         "chunk {} at byte {}: raw_bytes, size and escapes ask for {} bytes, it has {}", chunk, at,
         expected, in.left());
  }
  parts.raw = in.bytes("raw", raw_bytes);
  parts.streams = in.bytes("streams", streams);
  parts.escapes = in.bytes("escape records", parts.escape_count * escape_bytes);
  return parts;
}

bool join_chunk(const Scratch& scratch, std::size_t escape_count, std::size_t limit, Bytes& out) {
  if (escape_count > 65535) return false;
  const std::size_t total = scratch.side.size() + 6 + 2 * scratch.sizes.size() +
                            scratch.raw.size() + scratch.streams.size() + scratch.escapes.size();
  if (total >= limit) return false;
  ByteWriter writer(out);
  writer.bytes(scratch.side);
  writer.u32(static_cast<std::uint32_t>(scratch.raw.size()));
  for (const std::uint16_t size : scratch.sizes) writer.u16(size);
  writer.u16(static_cast<std::uint16_t>(escape_count));
  writer.bytes(scratch.raw);
  writer.bytes(scratch.streams);
  writer.bytes(scratch.escapes);
  return true;
}

}  // namespace gradwire::lossless
