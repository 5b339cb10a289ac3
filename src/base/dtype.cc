#include "gradwire/dtype.h"

#include <array>

#include "base/fail.h"

namespace gradwire {
namespace {

struct Entry {
  DType dtype;
  std::uint8_t size;
  std::string_view name, safetensors, numpy, code;
};

constexpr std::array<Entry, 15> kTypes{{
    {DType::f32, 4, "f32", "F32", "float32", "<f4"},
    {DType::bf16, 2, "bf16", "BF16", "bfloat16", "<V2"},
    {DType::f16, 2, "f16", "F16", "float16", "<f2"},
    {DType::f64, 8, "f64", "F64", "float64", "<f8"},
    {DType::f8_e4m3, 1, "f8_e4m3", "F8_E4M3", "float8_e4m3fn", "<V1"},
    {DType::f8_e5m2, 1, "f8_e5m2", "F8_E5M2", "float8_e5m2", "<f1"},
    {DType::i8, 1, "i8", "I8", "int8", "|i1"},
    {DType::u8, 1, "u8", "U8", "uint8", "|u1"},
    {DType::i16, 2, "i16", "I16", "int16", "<i2"},
    {DType::u16, 2, "u16", "U16", "uint16", "<u2"},
    {DType::i32, 4, "i32", "I32", "int32", "<i4"},
    {DType::u32, 4, "u32", "U32", "uint32", "<u4"},
    {DType::i64, 8, "i64", "I64", "int64", "<i8"},
    {DType::u64, 8, "u64", "U64", "uint64", "<u8"},
    {DType::boolean, 1, "bool", "BOOL", "bool_", "|b1"},
}};

const Entry& entry(DType dtype) noexcept { return kTypes[static_cast<std::size_t>(dtype) - 1]; }

}  // namespace

std::size_t element_size(DType dtype) noexcept { return entry(dtype).size; }
std::string_view dtype_name(DType dtype) noexcept { return entry(dtype).name; }

bool is_float(DType dtype) noexcept {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16 || dtype == DType::f64;
}

DType parse_dtype(std::string_view name) {
  std::string known;
  for (const Entry& e : kTypes) {
    if (name == e.name || name == e.safetensors || name == e.numpy || name == e.code)
      return e.dtype;
    known += known.empty() ? "" : ", ";
    known += e.name;
  }
  fail(ErrorKind::invalid_argument, "dtype '{}' is unknown; known are {}", name, known);
}

}  // namespace gradwire
