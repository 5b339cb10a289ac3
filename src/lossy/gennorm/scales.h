// What is fitted to the values: scales and the distribution.
// In: values and options.
// Out: a scale a bucket, the model.
// Assumes: options have passed check_options.
#pragma once

#include <span>

#include "lossy/gennorm/gennorm.h"

namespace gradwire::lossy {

/// False if a value is NaN or infinite; then scales and model are as they were.
bool fit(std::span<const float> values, const GennormOptions& options, std::vector<float>& scales,
         GennormModel& model);

/// Calls `use(bucket, begin, n)` for every bucket of n values.
template <typename Use>
void for_each_bucket(const GennormOptions& options, std::size_t n, const Use& use) {
  const std::size_t step = options.bucket_values == 0 ? n : options.bucket_values;
  std::size_t bucket = 0;
  for (std::size_t begin = 0; begin < n; begin += n - begin < step ? n - begin : step)
    use(bucket++, begin, n - begin < step ? n - begin : step);
}

}  // namespace gradwire::lossy
