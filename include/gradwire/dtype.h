// Element types of a tensor: all that safetensors knows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gradwire {

/// Wire ids are those of docs/format.md, "dtype"; they never change.
enum class DType : std::uint8_t {
  f32 = 1,
  bf16 = 2,
  f16 = 3,
  f64 = 4,
  f8_e4m3 = 5,
  f8_e5m2 = 6,
  i8 = 7,
  u8 = 8,
  i16 = 9,
  u16 = 10,
  i32 = 11,
  u32 = 12,
  i64 = 13,
  u64 = 14,
  boolean = 15,
};

/// Bytes of one element.
std::size_t element_size(DType dtype) noexcept;

/// Name in gradwire's spelling ("bf16", "f8_e4m3", "bool").
std::string_view dtype_name(DType dtype) noexcept;

/// Reads gradwire's, safetensors' and NumPy's spellings ("bf16", "BF16", "bfloat16", "float32",
/// "<f4"). Throws Error(invalid_argument) naming the word and the ones known.
DType parse_dtype(std::string_view name);

/// True for f32, bf16, f16 and f64, which go through the float pipeline.
bool is_float(DType dtype) noexcept;

}  // namespace gradwire
