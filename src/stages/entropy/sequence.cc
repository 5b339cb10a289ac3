#include "stages/entropy/sequence.h"

#include "stages/entropy/ans.h"
#include "stages/entropy/huffman.h"

namespace gradwire::entropy {
namespace {

/// Below this, building the big lookup table costs more than it saves.
constexpr std::uint64_t kShortSymbols = 8192;

}  // namespace

unsigned stream_count(const Table& table, unsigned streams_log2) noexcept {
  return table.coder == CoderId::huffman ? 1u << streams_log2 : 1u;
}

std::size_t encode_room(std::size_t n) noexcept {
  // Both coders spend at most 2 bytes a symbol; the rest covers ANS states, and the padding and
  // slack of 32 streams.
  return 2 * n + 1024;
}

std::unique_ptr<SequenceEncoder> make_encoder(const Table& table) {
  if (table.coder == CoderId::ans) {
    return std::make_unique<AnsEncoder>(table);
  }
  return std::make_unique<HuffmanEncoder>(table.values, table.pairs);
}

std::unique_ptr<SequenceDecoder> make_decoder(const Table& table, std::uint64_t symbols) {
  if (table.coder == CoderId::ans) {
    return std::make_unique<AnsDecoder>(table);
  }
  if (symbols < kShortSymbols)
    return std::make_unique<ShortHuffmanDecoder>(table.values, table.pairs);
  return std::make_unique<HuffmanDecoder>(table.values, table.pairs);
}

}  // namespace gradwire::entropy
