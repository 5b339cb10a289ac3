// Runs of values that share a scale.
// In: a number of values, and how many share one.
// Out: calls, bucket after bucket.
// Assumes: nothing.
#pragma once

#include <algorithm>
#include <cstddef>

namespace gradwire {

/// Calls `use(bucket, begin, n)` for every bucket of `count` values, the last one what is left.
/// `bucket_values` 0: all are one.
template <typename Use>
void for_each_bucket(std::size_t count, std::size_t bucket_values, const Use& use) {
  const std::size_t step = bucket_values == 0 ? count : bucket_values;
  std::size_t bucket = 0;
  for (std::size_t begin = 0; begin < count; begin += std::min(step, count - begin))
    use(bucket++, begin, std::min(step, count - begin));
}

}  // namespace gradwire
