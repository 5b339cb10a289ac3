// The fields of a float: sign, exponent bits, fraction bits (docs/format.md 2.1).
// In: a float dtype.
// Out: field widths.
// Assumes: is_float(dtype).
#pragma once

#include "gradwire/dtype.h"

namespace gradwire {

struct FloatFormat {
  unsigned exponent_bits;  ///< E
  unsigned fraction_bits;  ///< W
  constexpr unsigned bits() const noexcept { return 1 + exponent_bits + fraction_bits; }
};

constexpr FloatFormat float_format(DType dtype) noexcept {
  switch (dtype) {
    case DType::bf16:
      return {8, 7};
    case DType::f16:
      return {5, 10};
    case DType::f64:
      return {11, 52};
    default:
      return {8, 23};
  }
}

}  // namespace gradwire
