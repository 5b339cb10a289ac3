// The loops of the Hadamard transform.
// In: values of one block.
// Out: the same memory.
// Assumes: sizes and distances are powers of two.
// A butterfly of distance h makes (a + b, a - b) of the values at i and i + h, for all i without
// the bit h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gradwire::lossy {

inline constexpr std::size_t kTile = 4096;  ///< values that stay in a cache of the first level

/// Butterflies of distances first, 2 first, ... n / 2, ascending. 8 <= first.
void far_butterflies(float* values, std::size_t n, std::size_t first) noexcept;

/// All distances of n <= kTile values, ascending.
void tile_butterflies(float* values, std::size_t n) noexcept;

/// Multiplies by `scale`, or by -scale where value first + i has a sign: bit i mod 32 of draw
/// (first + i) / 32 of `seed`. n <= kTile, first a multiple of 32; those draws do not cross a
/// multiple of 2^32.
void apply_signs(float* values, std::size_t n, float scale, std::uint64_t seed,
                 std::uint64_t first) noexcept;

}  // namespace gradwire::lossy
