// Working memory of one worker.
// In: nothing.
// Out: buffers for one chunk that keep their capacity from chunk to chunk.
// Assumes: one user at a time.
#pragma once

#include <tuple>
#include <vector>

#include "base/buffer.h"
#include "base/bytes.h"
#include "stages/predict/kernels.h"

namespace gradwire::lossless {

struct Scratch {
  std::vector<std::uint8_t> symbols, compact, second, joint, mask;
  std::vector<std::uint16_t> sizes;
  Bytes side, escapes;
  Buffer raw, streams;
  std::tuple<std::vector<std::uint16_t>, std::vector<std::uint32_t>, std::vector<std::uint64_t>>
      words, records, packed;
  std::vector<std::int32_t> scales;
  std::tuple<predict::KernelScratch<std::uint16_t>, predict::KernelScratch<std::uint32_t>> kernels;
  bool has_map = false;        ///< the chunk encoded last has a flag map
  std::size_t side_bytes = 0;  ///< of the chunk decoded last: what stands before its raw_bytes

  template <typename Word>
  static Word* sized(std::tuple<std::vector<std::uint16_t>, std::vector<std::uint32_t>,
                                std::vector<std::uint64_t>>& store,
                     std::size_t n) {
    auto& buffer = std::get<std::vector<Word>>(store);
    if (buffer.size() < n) buffer.resize(n);
    return buffer.data();
  }
  static std::uint8_t* sized(std::vector<std::uint8_t>& buffer, std::size_t n) {
    if (buffer.size() < n) buffer.resize(n);
    return buffer.data();
  }
};

}  // namespace gradwire::lossless
