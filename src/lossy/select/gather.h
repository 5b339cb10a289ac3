// Passes over values or magnitudes that the selectors are made of.
// In: values, and a lowest magnitude, at most 2^31 - 1.
// Out: indices, ascending; or magnitudes.
// Assumes: at most 2^32 - 1 values.
#pragma once

#include <span>

#include "lossy/select/select.h"

namespace gradwire::lossy {

/// Replaces `indices` by those of the values whose magnitude is `low` or more.
void gather(std::span<const float> values, std::uint32_t low, Indices& indices);

/// Keeps of `indices` (ascending) the `count` whose values are the largest, lower indices first
/// among equals; no change where there are no more than that.
void keep_largest(std::span<const float> values, std::size_t count, SelectScratch& scratch,
                  Indices& indices);

/// keep_largest where more than 1.3 times `count` were selected.
void cut_surplus(std::span<const float> values, std::size_t count, SelectScratch& scratch,
                 Indices& indices);

/// Magnitudes of all values up to kWholeSample of them, else of a block in each 256, at a place
/// drawn by `seed`: fixed places would see the same columns of every row. A block has 16 values, or
/// what makes kWholeSample values in all. Values behind the last whole 256 are left out then.
void sample_magnitudes(std::span<const float> values, std::uint64_t seed, Words& sample);
inline constexpr std::size_t kWholeSample = std::size_t{1} << 18;

/// The magnitude that `rank` of `words` reach or exceed, ties aside; `words` are reordered.
/// 1 <= rank <= size.
std::uint32_t largest_at(Words& words, std::size_t rank);

}  // namespace gradwire::lossy
