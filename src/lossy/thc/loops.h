// The loops over values of THC.
// In: rotated values, entries, indices.
// Out: indices; values; sums.
// Assumes: sizes that fit; draws do not cross a multiple of 2^32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/counter_random.h"

namespace gradwire::lossy {

/// What a value has to know of the cell of the grid 0 .. top that it lies in, in one word: the
/// index of the entry at or below it, that entry, and the distance to the next.
constexpr std::uint32_t cell_word(std::uint32_t below, std::uint32_t low,
                                  std::uint32_t gap) noexcept {
  return below | low << 8 | gap << 16;
}

struct IndexRun {
  std::size_t n;
  float norm;      ///< of the block; not 0
  float per_norm;  ///< units of the grid a norm
  std::int32_t top;
  RandomKey key;
  std::uint32_t first;
};

/// `cells`: `top` words. A NaN goes to the table's end.
void to_indices(const float* values, const IndexRun& run, const std::uint32_t* cells,
                std::uint8_t* indices) noexcept;

/// (2 sums[i] - middle) * factor.
void from_sums(const std::uint32_t* sums, std::size_t n, std::uint32_t middle, float factor,
               float* values) noexcept;
void from_sums(const std::uint8_t* sums, std::size_t n, std::uint32_t middle, float factor,
               float* values) noexcept;

/// Infinite or NaN if and only if a value is.
double squares_of(const float* values, std::size_t n) noexcept;

/// The largest; 0 for none.
std::uint32_t largest_of(const std::uint8_t* integers, std::size_t n) noexcept;
std::uint32_t largest_of(const std::uint32_t* integers, std::size_t n) noexcept;

}  // namespace gradwire::lossy
