// Canonical Huffman codes of at most 11 bits, written least significant bit first in K contiguous
// streams (docs/format.md 4.2).
// In: code lengths of a complete code.
// Out: bytes or symbols; with pairs, one code stands for two neighbouring symbols below 16.
// Assumes: the lengths were checked (is_complete_code); of coded bytes, nothing.
// Source: canonical codes as in Moffat & Turpin 1997; several symbols a lookup as in Choueka et
// al. 1985.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "stages/entropy/code_lengths.h"
#include "stages/entropy/sequence.h"

namespace gradwire::entropy {

/// Sum of 2^(11 - length) over the symbols with a length; 2^11 for a complete code.
std::uint32_t kraft_sum(const Values& lengths) noexcept;

inline bool is_complete_code(const Values& lengths) noexcept {
  return kraft_sum(lengths) == 1u << kMaxCodeLength;
}

/// The codes of a complete code, bit-reversed: the first bit written is the lowest.
std::array<std::uint16_t, kMaxSymbols> canonical_codes(const Values& lengths) noexcept;

/// Symbols a stream, but for the last ones: n / K rounded up to 32.
constexpr std::size_t segment_symbols(std::size_t n, unsigned streams_log2) noexcept {
  const std::size_t streams = std::size_t{1} << streams_log2;
  return ((n + streams - 1) / streams + 31) & ~std::size_t{31};
}

/// Bytes that encode_stream may write for n symbols, slack included.
constexpr std::size_t stream_room(std::size_t n) noexcept {
  return (n * kMaxCodeLength + 7) / 8 + 16;
}

class HuffmanEncoder final : public SequenceEncoder {
 public:
  HuffmanEncoder(const Values& lengths, bool pairs);
  std::size_t encode(const std::uint8_t* symbols, std::size_t n, unsigned streams_log2,
                     std::uint8_t* dst, std::uint16_t* sizes) const override;
  /// One stream of any length to dst (stream_room(n) bytes); returns its bytes.
  std::size_t encode_stream(const std::uint8_t* symbols, std::size_t n, std::uint8_t* dst) const;

 private:
  /// What the inner loop takes in one step: a symbol, or two with one entry.
  enum class Step : std::uint8_t { symbol, two_symbols_long, two_symbols_short };
  /// Code in the highest bits, its length in the lowest byte.
  using Entries = std::array<std::uint64_t, kMaxSymbols>;

  template <unsigned kStreams>
  void encode_streams(std::array<const std::uint8_t*, kStreams> symbols, std::size_t n,
                      std::array<std::uint8_t*, kStreams>& dst) const;
  void join_entries();

  bool pairs_;
  Step step_ = Step::symbol;
  Entries units_{};   ///< of a symbol, or of a pair of symbols when the code is over pairs
  Entries joined_{};  ///< of two neighbours below 16, s0 | s1 << 4, whatever the code is over
};

/// Decodes a stream that is too short to pay for HuffmanDecoder's table; exact end as there. Reads
/// nothing past the span.
bool decode_short_stream(const Values& lengths, ByteSpan stream, std::span<std::uint8_t> symbols);

/// For sequences of a few thousand symbols at most. Reads nothing past the streams.
class ShortHuffmanDecoder final : public SequenceDecoder {
 public:
  ShortHuffmanDecoder(const Values& lengths, bool pairs);
  bool decode(const std::uint8_t* src, std::span<const std::uint16_t> sizes, std::size_t n,
              unsigned streams_log2, std::uint8_t* symbols) const override;
  bool decode_stream(ByteSpan stream, std::span<std::uint8_t> symbols) const;

 private:
  bool pairs_;
  std::array<std::uint16_t, 1u << kMaxCodeLength>
      table_;  ///< symbol << 8 | length, by the next 11 bits
};

class HuffmanDecoder final : public SequenceDecoder {
 public:
  HuffmanDecoder(const Values& lengths, bool pairs);
  bool decode(const std::uint8_t* src, std::span<const std::uint16_t> sizes, std::size_t n,
              unsigned streams_log2, std::uint8_t* symbols) const override;
  /// One stream of any length, of exactly `bytes` bytes; kReadSlack bytes behind it may be read.
  bool decode_stream(const std::uint8_t* src, std::size_t bytes, std::size_t n,
                     std::uint8_t* symbols) const;

  /// A stream being decoded; positions in bits from the first byte of all streams.
  struct Lane {
    std::uint64_t position;
    std::uint64_t end_position;
    std::uint8_t* out;
    std::uint8_t* end;
    std::size_t left() const noexcept { return static_cast<std::size_t>(end - out); }
  };

 private:
  bool run(const std::uint8_t* src, std::span<Lane> streams) const;
  bool finish(const std::uint8_t* src, Lane& lane) const;
  bool finish_symbols(const std::uint8_t* src, Lane& lane) const;

  bool pairs_;
  std::array<std::uint8_t, kMaxSymbols> lengths_;
  /// By the next 11 bits: byte 0 = bits used, bytes 1 to 6 = symbols, byte 7 = how many.
  alignas(64) std::array<std::uint64_t, 1u << kMaxCodeLength> table_;
};

}  // namespace gradwire::entropy
