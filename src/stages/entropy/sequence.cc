#include "stages/entropy/sequence.h"

#include "stages/entropy/ans.h"
#include "stages/entropy/huffman.h"

namespace gradwire::entropy {

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

std::unique_ptr<SequenceDecoder> make_decoder(const Table& table) {
  if (table.coder == CoderId::ans) {
    return std::make_unique<AnsDecoder>(table);
  }
  return std::make_unique<HuffmanDecoder>(table.values, table.pairs);
}

}  // namespace gradwire::entropy
