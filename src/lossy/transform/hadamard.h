// The randomised Hadamard transform: a rotation after which the values of a block look like draws
// of one normal distribution, whatever they were.
// In: values, padding included, and how they are cut into blocks; a seed that ranks share.
// Out: the same memory: of each block x, H D x / sqrt(size), where D has random signs and H is the
// Hadamard matrix in natural order; and back.
// Assumes: finite values whose norm is at most 2^112 in each block: what is computed stays finite
// then. Norms of blocks stay the same but for rounding.
// Source: algorithm and code of THC (Li et al. 2024, Tensor homomorphic compression).
// Linear but for rounding, so that the sum of ranks' rotated values can be turned back. The same
// bits on every CPU: butterflies are in one order, forward by ascending distance.
#pragma once

#include <cstdint>
#include <span>

#include "base/power_blocks.h"

namespace gradwire::lossy {

/// The value at i has the sign of bit i mod 32 of draw i / 32 of the seed. Throws invalid_argument
/// if `values` has not blocks.padded() places; those behind blocks.values() should be zero.
void rotate(std::span<float> values, const PowerBlocks& blocks, std::uint64_t seed);

/// The inverse, and the transpose, of `rotate` with this seed.
void rotate_back(std::span<float> values, const PowerBlocks& blocks, std::uint64_t seed);

}  // namespace gradwire::lossy
