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

/// The band of the selectors that estimate a threshold: 0.8 to 1.3 times the asked count.
bool is_scarce(std::size_t found, std::size_t count);
bool is_surplus(std::size_t found, std::size_t count);

/// Magnitudes of a sample: one cache line of 16 values at a place drawn by `seed` in each of equal
/// pieces of `values`, as fixed places would see the same columns of every row. It has 2^17 values,
/// and enough for 128 of the `count` (above 0) largest. Where that is about all of them or more, it
/// is all of them, and the result is false.
bool sample_magnitudes(std::span<const float> values, std::size_t count, std::uint64_t seed,
                       Words& sample);

/// The magnitude that `rank` of `words` reach or exceed, ties aside; `words` are reordered.
/// 1 <= rank <= size.
std::uint32_t largest_at(Words& words, std::size_t rank);

}  // namespace gradwire::lossy
