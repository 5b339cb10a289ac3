// What the tests of THC share.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "base/counter_random.h"
#include "error_testing.h"
#include "lossy/thc/lanes.h"
#include "lossy/thc/thc.h"

namespace gradwire::lossy {

using testing::refusal;
using Values = std::vector<float>;
using Octets = std::vector<std::uint8_t>;
using Sums = std::vector<std::uint32_t>;
using Words = std::vector<std::int32_t>;

/// Values between -1 and 1, the same on every computer.
inline Values some_values(std::size_t n, std::uint64_t seed) {
  const RandomKey key(seed, 0);
  Values values(n);
  for (std::size_t i = 0; i < n; ++i)
    values[i] = 2 * random_unit(key, static_cast<std::uint32_t>(i)) - 1;
  return values;
}

inline Octets some_entries(std::size_t n, std::uint32_t top, std::uint64_t seed) {
  Octets entries(n);
  for (std::size_t i = 0; i < n; ++i)
    entries[i] = static_cast<std::uint8_t>(random_below(seed, i, top + 1));
  return entries;
}

inline Values norms_of(const Values& values, const PowerBlocks& blocks) {
  Values norms;
  EXPECT_TRUE(measure_norms(values, blocks, norms));
  return norms;
}

inline Octets indices_of(const TableQuantiser& quantiser, const Values& rotated,
                         const PowerBlocks& blocks, const Values& norms, std::uint64_t seed) {
  Octets indices(blocks.padded());
  quantiser.quantise(rotated, blocks, norms, {.seed = seed, .first = 0}, indices);
  return indices;
}

/// |decoded - mean|^2 / |mean|^2
inline double error_of_mean(const std::vector<Values>& ranks, const Values& decoded) {
  double error = 0, square = 0;
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    double mean = 0;
    for (const Values& rank : ranks) mean += double{rank[i]};
    mean /= static_cast<double>(ranks.size());
    error += (double{decoded[i]} - mean) * (double{decoded[i]} - mean);
    square += mean * mean;
  }
  return error / square;
}

}  // namespace gradwire::lossy
