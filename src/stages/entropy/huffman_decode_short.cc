// Decoding of sequences too short to pay for the table of several symbols a lookup: one code at a
// time.

#include <algorithm>

#include "base/bits.h"
#include "stages/entropy/huffman.h"

namespace gradwire::entropy {

ShortHuffmanDecoder::ShortHuffmanDecoder(const Values& lengths, bool pairs) : pairs_(pairs) {
  const auto codes = canonical_codes(lengths);
  for (std::size_t s = 0; s < kMaxSymbols; ++s) {
    if (lengths[s] == 0) continue;
    const auto entry = static_cast<std::uint16_t>(s << 8 | lengths[s]);
    for (std::size_t i = codes[s]; i < table_.size(); i += std::size_t{1} << lengths[s])
      table_[i] = entry;
  }
}

bool ShortHuffmanDecoder::decode_stream(ByteSpan stream, std::span<std::uint8_t> symbols) const {
  BitReader bits(stream);
  const auto next = [&] {
    const std::uint16_t entry = table_[bits.peek(kMaxCodeLength)];
    bits.skip(entry & 255);
    return static_cast<std::uint8_t>(entry >> 8);
  };
  if (!pairs_) {
    for (std::uint8_t& symbol : symbols) symbol = next();
    return bits.at_exact_end();
  }
  for (std::size_t i = 0; i < symbols.size(); i += 2) {
    const std::uint8_t joint = next();
    symbols[i] = joint & 15;
    if (i + 1 < symbols.size()) {
      symbols[i + 1] = joint >> 4;
    } else if (joint >> 4 != 0) {
      return false;  // the phantom partner of an odd last symbol
    }
  }
  return bits.at_exact_end();
}

bool ShortHuffmanDecoder::decode(const std::uint8_t* src, std::span<const std::uint16_t> sizes,
                                 std::size_t n, unsigned streams_log2,
                                 std::uint8_t* symbols) const {
  if (streams_log2 > kMaxStreamsLog2 || sizes.size() != std::size_t{1} << streams_log2)
    return false;
  const std::size_t segment = segment_symbols(n, streams_log2);
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    const std::size_t begin = std::min(n, k * segment);
    const std::size_t end = std::min(n, begin + segment);
    if (begin == end && sizes[k] != 0) return false;
    if (begin < end && !decode_stream({src, sizes[k]}, {symbols + begin, end - begin}))
      return false;
    src += sizes[k];
  }
  return true;
}

bool decode_short_stream(const Values& lengths, ByteSpan stream, std::span<std::uint8_t> symbols) {
  return ShortHuffmanDecoder(lengths, false).decode_stream(stream, symbols);
}

}  // namespace gradwire::entropy
