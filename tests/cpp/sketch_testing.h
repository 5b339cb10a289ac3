// Ranks with sparse integers, and the whole way of a step without a network.
#pragma once

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "base/counter_random.h"
#include "lossy/sketch/sketch.h"

namespace gradwire::lossy {

using Integers = std::vector<std::int32_t>;
using Index = std::vector<std::uint8_t>;

/// What ranks hold: `blocks` blocks of the n values, drawn by the seed, are in the union, and each
/// is on one rank at least. Magnitudes are up to `most`, which is common.
inline std::vector<Integers> sparse_ranks(std::size_t n, std::size_t blocks, std::size_t lanes,
                                          unsigned world, std::uint32_t most, std::uint64_t seed) {
  std::vector<Integers> ranks(world, Integers(n));
  const auto all = static_cast<std::uint32_t>((n + lanes - 1) / lanes);
  std::vector<bool> taken(all);
  std::uint64_t draw = 0;
  for (std::size_t k = 0; k < blocks; ++k) {
    std::uint32_t block = random_below(seed, draw++, all);
    while (taken[block]) block = block + 1 == all ? 0 : block + 1;
    taken[block] = true;
    const std::uint32_t owner = random_below(seed, draw++, world);
    for (unsigned r = 0; r < world; ++r) {
      if (r != owner && random_below(seed, draw++, 4) != 0) continue;
      for (std::size_t i = block * lanes; i < std::min(n, (block + 1) * lanes); ++i) {
        const std::uint64_t bits = random_bits(seed, draw++);
        const auto size = static_cast<std::int32_t>(bits % 4 == 0 ? most : bits % most + 1);
        ranks[r][i] = bits >> 63 != 0 ? -size : size;
      }
    }
  }
  return ranks;
}

inline Integers plain_sums(const std::vector<Integers>& ranks) {
  Integers sums(ranks[0].size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    std::int64_t sum = 0;
    for (const Integers& values : ranks) sum += values[i];
    EXPECT_LE(std::abs(sum), 0x7fffffff);
    sums[i] = static_cast<std::int32_t>(sum);
  }
  return sums;
}

inline Index index_of(const Integers& values, std::size_t lanes) {
  Index index(index_bytes(values.size(), lanes), 0xff);
  mark_index(values, lanes, index);
  return index;
}

inline Index union_of(const std::vector<Integers>& ranks, std::size_t lanes) {
  Index all(index_bytes(ranks[0].size(), lanes));
  for (const Integers& values : ranks) {
    const Index own = index_of(values, lanes);
    for (std::size_t b = 0; b < all.size(); ++b)
      all[b] = static_cast<std::uint8_t>(all[b] | own[b]);
  }
  return all;
}

inline SketchPlan plan_of(const Index& index, std::size_t n, const SketchOptions& options) {
  SketchScratch scratch;
  SketchPlan plan;
  plan_sketch(index, n, options, scratch, plan);
  return plan;
}

/// A payload of one rank, with what the exchange demands of it checked for `world` ranks.
inline Integers payload_of(const SketchPlan& plan, const Integers& values, std::uint32_t most,
                           std::size_t world = 1) {
  Integers payload(plan.payload_values(), 99);
  fill_payload(plan, values, index_of(values, plan.options.block_values), most, payload);
  const std::int64_t bound = payload_bound(plan, most);
  EXPECT_LE(bound * static_cast<std::int64_t>(world), 0x7fffffff);
  for (const std::int32_t value : payload) EXPECT_LE(std::abs(std::int64_t{value}), bound);
  return payload;
}

/// The payloads of all ranks, summed.
inline Integers summed_payload(const SketchPlan& plan, const std::vector<Integers>& ranks,
                               std::uint32_t most) {
  Integers sum(plan.payload_values());
  for (const Integers& values : ranks) {
    const Integers part = payload_of(plan, values, most, ranks.size());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  }
  return sum;
}

inline Integers restored(const SketchPlan& plan, Integers payload) {
  Integers sums(plan.values, 99);
  restore_sums(plan, payload, sums);
  return sums;
}

/// Sums by sketch; `plan` is what it was done by.
inline Integers sketched_sums(const std::vector<Integers>& ranks, const SketchOptions& options,
                              std::uint32_t most, SketchPlan& plan) {
  plan = plan_of(union_of(ranks, options.block_values), ranks[0].size(), options);
  return restored(plan, summed_payload(plan, ranks, most));
}

}  // namespace gradwire::lossy
