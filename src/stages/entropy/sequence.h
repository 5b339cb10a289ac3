// Sequences of symbols to streams of bytes and back (docs/format.md 4.2, 4.3), behind one
// interface.
// In: symbols as bytes and a resolved table.
// Out: streams, one behind the other, and their sizes.
// Assumes: an encoder's symbols are all codable by its table. A decoder assumes nothing of the
// bytes, but that 16 bytes past the last stream may be read (their values do not matter).
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "stages/entropy/table.h"

namespace gradwire::entropy {

inline constexpr unsigned kMaxStreamsLog2 = 5;
inline constexpr unsigned kMaxStreams = 1u << kMaxStreamsLog2;
inline constexpr std::size_t kReadSlack = 16;

/// Streams that a sequence has under a table: K for huffman, 1 for ans.
unsigned stream_count(const Table& table, unsigned streams_log2) noexcept;

/// Bytes that `encode` may write for n symbols, slack included.
std::size_t encode_room(std::size_t n) noexcept;

class SequenceEncoder {
 public:
  virtual ~SequenceEncoder() = default;
  /// Writes the streams of n symbols to dst (encode_room(n) bytes) and their sizes to sizes[0 ..
  /// stream count). Returns the bytes written, or SIZE_MAX when a stream does not fit a u16 size.
  virtual std::size_t encode(const std::uint8_t* symbols, std::size_t n, unsigned streams_log2,
                             std::uint8_t* dst, std::uint16_t* sizes) const = 0;
};

class SequenceDecoder {
 public:
  virtual ~SequenceDecoder() = default;
  /// Reads n symbols from streams of the given sizes, which lie at src one behind the other; writes
  /// exactly symbols[0 .. n). False when the bytes are no valid encoding (section, exact end,
  /// states).
  virtual bool decode(const std::uint8_t* src, std::span<const std::uint16_t> sizes, std::size_t n,
                      unsigned streams_log2, std::uint8_t* symbols) const = 0;
};

std::unique_ptr<SequenceEncoder> make_encoder(const Table& table);
/// `symbols`: about how many will be decoded in all; few get a decoder that is quicker to build.
std::unique_ptr<SequenceDecoder> make_decoder(const Table& table,
                                              std::uint64_t symbols = UINT64_MAX);

}  // namespace gradwire::entropy
