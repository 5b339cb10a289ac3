// What the encoder has decided for a tensor before it writes the first chunk.
// In: choices of the planner.
// Out: the header, side information and tables that chunks are coded with.
// Assumes: the caller's tensor outlives it.
#pragma once

#include "frame/tensor_header.h"
#include "gradwire/compress.h"
#include "lossless/table_set.h"
#include "stages/predict/kernels.h"
#include "stages/predict/scaled.h"

namespace gradwire::lossless {

struct Plan {
  frame::TensorHeader header;
  bool map_zeros = false;   ///< scattered zeros by a flag map a chunk (else in-band)
  bool all_stored = false;  ///< do not try to code chunks
  predict::Grid grid;
  predict::Taps taps;
  std::int32_t base = 0;                 ///< of the primary table (scaled)
  std::vector<entropy::Table> tables;    ///< filled after counting
  std::uint8_t primary = 0, second = 0;  ///< table indices of every chunk
};

/// The tensor's words for a run of elements: where they lie, or copied to aligned memory.
template <typename Word>
const Word* load_words(const TensorView& tensor, std::uint64_t first, std::size_t n,
                       std::vector<Word>& buffer) {
  const std::uint8_t* const at = tensor.data.data() + first * sizeof(Word);
  if (reinterpret_cast<std::uintptr_t>(at) % alignof(Word) == 0)
    return reinterpret_cast<const Word*>(at);
  if (buffer.size() < n) buffer.resize(n);
  std::memcpy(buffer.data(), at, n * sizeof(Word));
  return buffer.data();
}

}  // namespace gradwire::lossless
