#include "lossy/codec/elements.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/fail.h"
#include "base/half.h"

namespace gradwire::lossy {
namespace {

constexpr float kLargestBf16 = 0x1.fep127F;
constexpr float kLargestF16 = 65504;

std::uint16_t to_half(float value, DType dtype) noexcept {
  const float largest = dtype == DType::bf16 ? kLargestBf16 : kLargestF16;
  const float fitting = std::isfinite(value) ? std::clamp(value, -largest, largest) : value;
  return dtype == DType::bf16 ? to_bf16(fitting) : to_f16(fitting);
}

float from_half(std::uint16_t half, DType dtype) noexcept {
  return dtype == DType::bf16 ? from_bf16(half) : from_f16(half);
}

}  // namespace

void check_lossy_dtype(DType dtype) {
  if (!is_lossy_dtype(dtype))
    fail(ErrorKind::invalid_argument, "dtype: {} given, lossy methods take f32, bf16 and f16",
         dtype_name(dtype));
}

void to_floats(ByteSpan elements, DType dtype, std::span<float> values) {
  if (dtype == DType::f32) {
    if (!values.empty()) std::memcpy(values.data(), elements.data(), elements.size());
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = from_half(load<std::uint16_t>(elements.data() + 2 * i), dtype);
}

std::span<const float> as_floats(ByteSpan elements, DType dtype, std::vector<float>& room) {
  const std::size_t n = elements.size() / element_size(dtype);
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(elements.data()) % alignof(float) == 0;
  if (dtype == DType::f32 && is_aligned)
    return {reinterpret_cast<const float*>(elements.data()), n};
  room.resize(n);
  to_floats(elements, dtype, room);
  return room;
}

void put_element(float value, DType dtype, std::size_t i, std::uint8_t* elements) noexcept {
  if (dtype == DType::f32) return store(elements + 4 * i, value);
  store(elements + 2 * i, to_half(value, dtype));
}

void from_floats(std::span<const float> values, DType dtype, std::span<std::uint8_t> elements) {
  if (dtype == DType::f32) {
    if (!values.empty()) std::memcpy(elements.data(), values.data(), values.size_bytes());
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    store(elements.data() + 2 * i, to_half(values[i], dtype));
}

}  // namespace gradwire::lossy
