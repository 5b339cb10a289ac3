// The selectors that need more than a pass.
// In: as in select.h, checked: 0 < count < the number of values.
// Out: indices, ascending.
// Assumes: the caller is `select`.
#pragma once

#include "lossy/select/select.h"

namespace gradwire::lossy {

/// Exact. A sample gives a threshold that is surely a little too low, and the choice is made among
/// what passes; where too few pass, among all. No sample alters the result.
void select_top_k(std::span<const float> values, const SelectOptions& options,
                  SelectScratch& scratch, Indices& indices);

/// Source: Lin et al. 2018, Deep Gradient Compression, and the authors' code: a strided sample of
/// `sample_share` and of 2 n / count values at least, the threshold that the asked share of it
/// reaches; times 0.8, at most ten times, while under 0.8 count pass; where over 1.3 count pass,
/// the exact `count` largest of them. We differ: when ten rounds were not enough, the exact ones;
/// the authors keep the first `count` in index order where 1.0 to 1.3 count pass, we keep all.
void select_sampled_top_k(std::span<const float> values, const SelectOptions& options,
                          SelectScratch& scratch, Indices& indices);

/// Robert Floyd's sampling on a bitmap: `count` draws, or as many as there are others.
/// Source: Bentley, Floyd 1987, A sample of brilliance.
void select_random_k(std::size_t n, const SelectOptions& options, SelectScratch& scratch,
                     Indices& indices);

/// See sidco.h.
void select_sidco(std::span<const float> values, const SelectOptions& options, SidcoState& state,
                  SelectScratch& scratch, Indices& indices);

}  // namespace gradwire::lossy
