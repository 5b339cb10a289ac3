// Elements of the dtypes that lossy methods take, as floats, and back.
// In: elements as they lie in memory, of any alignment; or floats.
// Out: floats, exactly; or elements.
// Assumes: dtypes that `is_lossy_dtype` holds for.
#pragma once

#include <span>
#include <vector>

#include "base/bytes.h"
#include "gradwire/dtype.h"

namespace gradwire::lossy {

constexpr bool is_lossy_dtype(DType dtype) noexcept {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}
/// Throws invalid_argument for others.
void check_lossy_dtype(DType dtype);

/// The elements in f32. `room` is used where they do not lie so that they can be read in place.
std::span<const float> as_floats(ByteSpan elements, DType dtype, std::vector<float>& room);

/// A copy; `values` has one place an element.
void to_floats(ByteSpan elements, DType dtype, std::span<float> values);

/// To the nearest, ties to even; what is finite stays so. `elements` has the size of the values.
void from_floats(std::span<const float> values, DType dtype, std::span<std::uint8_t> elements);
/// The same for element i alone.
void put_element(float value, DType dtype, std::size_t i, std::uint8_t* elements) noexcept;

}  // namespace gradwire::lossy
