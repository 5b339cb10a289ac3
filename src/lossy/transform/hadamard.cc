#include "lossy/transform/hadamard.h"

#include <algorithm>
#include <cmath>

#include "base/fail.h"
#include "lossy/transform/butterflies.h"

namespace gradwire::lossy {
namespace {

void check_size(std::span<const float> values, const PowerBlocks& blocks) {
  if (values.size() != blocks.padded())
    fail(ErrorKind::invalid_argument, "values: {} given, {} needed for blocks of {} values",
         values.size(), blocks.padded(), blocks.values());
}

float scale_of(std::size_t size) noexcept {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(size)));
}

}  // namespace

void rotate(std::span<float> values, const PowerBlocks& blocks, std::uint64_t seed) {
  check_size(values, blocks);
  for (std::size_t k = 0; k < blocks.count(); ++k) {
    const auto [begin, size, used] = blocks[k];
    const std::size_t tile = std::min(size, kTile);
    for (std::size_t at = begin; at < begin + size; at += tile) {
      apply_signs(&values[at], tile, scale_of(size), seed, at);
      tile_butterflies(&values[at], tile);
    }
    far_butterflies(&values[begin], size, tile);
  }
}

void rotate_back(std::span<float> values, const PowerBlocks& blocks, std::uint64_t seed) {
  check_size(values, blocks);
  for (std::size_t k = 0; k < blocks.count(); ++k) {
    const auto [begin, size, used] = blocks[k];
    const std::size_t tile = std::min(size, kTile);
    far_butterflies(&values[begin], size, tile);
    for (std::size_t at = begin; at < begin + size; at += tile) {
      tile_butterflies(&values[at], tile);
      apply_signs(&values[at], tile, scale_of(size), seed, at);
    }
  }
}

}  // namespace gradwire::lossy
