// A tensor body's index, chunks and trailer (docs/format.md 2.2, 2.3).
// In: the bytes of a body, whole or its parts one after the other.
// Out: chunk spans, checksums; or those bytes written.
// Assumes: nothing of the bytes; every chunk span returned lies in the frame with 16 readable
// bytes behind.
#pragma once

#include <vector>

#include "frame/sections.h"
#include "frame/tensor_header.h"

namespace gradwire::frame {

inline constexpr std::size_t kTrailerSlack = 16;

enum class ChunkKind : std::uint8_t { coded = 0, mapped = 1, constant = 2, stored = 3 };

struct ChunkEntry {
  ChunkKind kind = ChunkKind::stored;
  std::uint8_t table = 0;
  std::uint8_t second = 0;
  std::uint64_t length = 0;
  std::uint64_t offset = 0;  ///< in the payload of `chunks`; filled by the reader
};

/// A parsed body; spans point into the frame. Of a body that is read in parts, the caller moves
/// `window` along the chunks.
struct TensorBody {
  TensorHeader header;
  bool has_second = false;
  bool checksums = false;
  bool in_archive = false;
  std::vector<ChunkEntry> index;
  Sections sections;
  std::uint64_t head_hash = 0;
  ByteSpan window;                 ///< the payload of `chunks` that is at hand
  std::uint64_t window_first = 0;  ///< its place in that payload

  const Span& operator[](Section id) const noexcept { return sections[id]; }
  ByteSpan chunk(std::uint64_t c) const noexcept {
    return window.subspan(index[c].offset - window_first, index[c].length);
  }
  std::size_t chunk_offset(std::uint64_t c) const noexcept {
    return sections[Section::chunks].offset + index[c].offset;
  }
};

/// `bytes` runs from where head_hash starts to the end of the body; the body starts `prelude` bytes
/// into it, and `origin` is the offset of `bytes` in the frame. The element count is held against
/// `max_output` bytes before anything is sized from it (`limit`).
TensorBody read_tensor_body(ByteSpan bytes, std::size_t prelude, std::size_t origin, bool checksums,
                            std::uint64_t max_output);

/// Throws for a lossy body where none may stand.
[[noreturn]] void refuse_lossy();

/// The header of a body that starts `origin` bytes into the frame; nothing else is looked at.
TensorHeader peek_tensor_header(ByteSpan body, std::size_t origin);

/// The beginning of a frame's body, up to the payload of `chunks`, where `head` ends; as
/// read_tensor_body in all else.
TensorBody read_tensor_head(ByteSpan head, const Prelude& prelude, const ChunksPlace& chunks,
                            std::uint64_t max_output);
/// What follows the payload of `chunks`, to the end of the body; it stands at byte `origin`.
void read_tensor_rest(TensorBody& body, ByteSpan rest, std::size_t origin);

/// Checksum of a chunk from its decoded bytes and its side bytes (those before raw_bytes).
std::uint64_t chunk_checksum(std::uint64_t head_hash, std::uint64_t c, ByteSpan decoded,
                             ByteSpan side) noexcept;
/// Compares a checksum with that of the trailer.
void check_checksum(const TensorBody& body, std::uint64_t c, std::uint64_t found);
/// Compares the checksum of a decoded chunk, or of an empty tensor's header (c = 0, no bytes).
void verify_chunk(const TensorBody& body, std::uint64_t c, ByteSpan decoded, ByteSpan side);

bool has_second_sequence(const TensorHeader& header) noexcept;
void write_index(const std::vector<ChunkEntry>& index, bool has_second, ByteWriter& out);
/// Bytes of the trailer's payload; without checksums and padding it is absent.
std::size_t trailer_bytes(std::uint64_t chunks, bool checksums, bool in_archive) noexcept;

}  // namespace gradwire::frame
