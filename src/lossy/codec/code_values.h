// Values of selected elements to what a body holds of them.
// In: f32 values, a quantiser or none, draws.
// Out: symbols, their rule, scales; and what a receiver makes of them.
// Assumes: options have passed check_options.
#pragma once

#include <variant>

#include "lossy/codec/body.h"
#include "lossy/gennorm/gennorm.h"
#include "lossy/mantissa/mantissa.h"
#include "lossy/quantise/quantise.h"

namespace gradwire::lossy {

/// Values are sent as they are, in f32.
struct ExactValues {};

/// How values are sent.
using ValueCoding = std::variant<ExactValues, QuantiseOptions, GennormOptions, MantissaOptions>;

/// Throws invalid_argument and names the option.
void check_coding(const ValueCoding& coding);

/// Values that share a scale; 0: all, or there is none.
std::size_t bucket_of(const ValueCoding& coding) noexcept;

/// Memory that keeps its capacity.
struct CodeMemory {
  Quantised quantised;
  GennormSymbols levels;
  std::vector<float> shifted;
};

/// False if a value is NaN or infinite: then `coded` is of no use. f16 gets a shift that puts the
/// largest magnitude just under the type's largest, so that small gradients are no subnormals;
/// powers of two become bf16; levels of a fitted distribution go with a table of them.
[[nodiscard]] bool code_values(std::span<const float> values, const ValueCoding& coding,
                               const Draws& draws, CodeMemory& memory, Coded& coded);

}  // namespace gradwire::lossy
