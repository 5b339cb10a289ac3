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

}  // namespace gradwire::lossy
