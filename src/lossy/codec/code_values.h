// Values of selected elements to what a body holds of them.
// In: f32 values, a quantiser or none, draws.
// Out: symbols, their rule, scales; and what a receiver makes of them.
// Assumes: options have passed check_options.
#pragma once

#include <optional>

#include "lossy/codec/body.h"
#include "lossy/quantise/quantise.h"

namespace gradwire::lossy {

/// How values are sent. Nothing: as they are, in f32.
using ValueCoding = std::optional<QuantiseOptions>;

/// Memory that keeps its capacity.
struct CodeMemory {
  Quantised quantised;
  std::vector<float> shifted;
};

/// False if a value is NaN or infinite: then `coded` is of no use. f16 gets a shift that puts the
/// largest magnitude just under the type's largest, so that small gradients are no subnormals;
/// powers of two become bf16.
[[nodiscard]] bool code_values(std::span<const float> values, const ValueCoding& coding,
                               const Draws& draws, CodeMemory& memory, Coded& coded);

}  // namespace gradwire::lossy
