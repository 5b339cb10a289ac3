// Takes .safetensors files apart: u64 header length, JSON, data. Published with the format are the
// rules that the data of the tensors neither overlap nor leave holes.
#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "errors.h"
#include "formatted.h"
#include "safetensors_header.h"
#include "source.h"

namespace gradwire::cli {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMostHeaderBytes = 100'000'000;  // what safetensors itself allows

struct KnownType {
  std::string_view name;
  unsigned bits;
  DType stored_as;
};

/// All of safetensors 0.6; those that gradwire has no id for are stored as bytes.
constexpr std::array<KnownType, 22> kKnownTypes{{
    {"F64", 64, DType::f64},       {"F32", 32, DType::f32},        {"F16", 16, DType::f16},
    {"BF16", 16, DType::bf16},     {"F8_E4M3", 8, DType::f8_e4m3}, {"F8_E5M2", 8, DType::f8_e5m2},
    {"I64", 64, DType::i64},       {"I32", 32, DType::i32},        {"I16", 16, DType::i16},
    {"I8", 8, DType::i8},          {"U64", 64, DType::u64},        {"U32", 32, DType::u32},
    {"U16", 16, DType::u16},       {"U8", 8, DType::u8},           {"BOOL", 8, DType::boolean},
    {"C64", 64, DType::u8},        {"F8_E8M0", 8, DType::u8},      {"F8_E4M3FNUZ", 8, DType::u8},
    {"F8_E5M2FNUZ", 8, DType::u8}, {"F6_E2M3", 6, DType::u8},      {"F6_E3M2", 6, DType::u8},
    {"F4", 4, DType::u8},
}};

const KnownType* find_type(std::string_view name) {
  const auto* const found = std::find_if(kKnownTypes.begin(), kKnownTypes.end(),
                                         [&](const KnownType& type) { return type.name == name; });
  return found == kKnownTypes.end() ? nullptr : found;
}

[[noreturn]] void refuse(const SafetensorsEntry& entry, const std::string& what) {
  fail(ErrorKind::corrupt, formatted("tensor {} (safetensors header, byte {}): {}",
                                     in_quotes(entry.name), entry.place, what));
}

/// The JSON text; checks the length in front of it.
std::span<const std::uint8_t> header_text(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < kLengthBytes) {
    fail(ErrorKind::truncated,
         formatted("not a safetensors file: {} bytes, the header's length alone takes {}",
                   bytes.size(), kLengthBytes));
  }
  std::uint64_t length = 0;
  for (unsigned i = 0; i < kLengthBytes; ++i) length |= std::uint64_t{bytes[i]} << (8 * i);
  if (length > kMostHeaderBytes) {
    fail(ErrorKind::corrupt,
         formatted("not a safetensors file: header length at byte 0 is {}, at most {} are allowed",
                   length, kMostHeaderBytes));
  }
  if (length > bytes.size() - kLengthBytes) {
    fail(ErrorKind::truncated,
         formatted("safetensors header length at byte 0 is {}, but only {} bytes follow", length,
                   bytes.size() - kLengthBytes));
  }
  return bytes.subspan(kLengthBytes, length);
}

void check_length(const SafetensorsEntry& entry, unsigned bits, std::uint64_t length) {
  const std::optional<std::uint64_t> wanted = checked_product(entry.shape, bits);
  const std::string what =
      formatted("{} of shape {}", printable(entry.dtype), shape_text(entry.shape));
  if (!wanted) refuse(entry, what + " is too large to exist");
  if (*wanted % 8 != 0) refuse(entry, what + " ends within a byte");
  if (*wanted / 8 != length) {
    refuse(entry, formatted("{} takes {} bytes, data_offsets [{}, {}] hold {}", what, *wanted / 8,
                            entry.offsets[0], entry.offsets[1], length));
  }
}

/// The shape under which the data are stored; types without an id are bytes.
std::vector<std::uint64_t> stored_shape(const SafetensorsEntry& entry, DType dtype,
                                        std::uint64_t length, bool is_own_type) {
  if (!is_own_type) return {length};
  if (entry.shape.size() > kMostDimensions) return {length / element_size(dtype)};
  return entry.shape;
}

SourceTensor tensor_of(SafetensorsEntry entry, std::span<const std::uint8_t> data) {
  const std::uint64_t length = entry.offsets[1] - entry.offsets[0];
  const KnownType* const type = find_type(entry.dtype);
  if (type != nullptr) check_length(entry, type->bits, length);
  const bool is_own_type = type != nullptr && (type->stored_as != DType::u8 || type->name == "U8");
  const DType dtype = type == nullptr ? DType::u8 : type->stored_as;
  std::vector<std::uint64_t> shape = stored_shape(entry, dtype, length, is_own_type);
  return {std::move(entry.name), dtype, std::move(shape), data.subspan(entry.offsets[0], length)};
}

/// Offsets lie in the data, each tensor begins where the one before ends.
void check_places(const std::vector<SafetensorsEntry>& entries, std::uint64_t start,
                  std::uint64_t size) {
  std::uint64_t end = 0;
  for (const SafetensorsEntry& entry : entries) {
    const std::string offsets =
        formatted("data_offsets [{}, {}]", entry.offsets[0], entry.offsets[1]);
    if (entry.offsets[1] < entry.offsets[0]) refuse(entry, offsets + " end before they begin");
    if (entry.offsets[1] > size) {
      refuse(entry, formatted("{} reach past the end of the file, whose data are {} bytes from "
                              "byte {} on",
                              offsets, size, start));
    }
    if (entry.offsets[0] < end) {
      refuse(entry, formatted("{} overlap another tensor, which ends at {} (byte {} of the file)",
                              offsets, end, start + end));
    }
    if (entry.offsets[0] > end) {
      refuse(entry, formatted("{} leave a hole of {} bytes before them, from byte {} of the file "
                              "on",
                              offsets, entry.offsets[0] - end, start + end));
    }
    end = entry.offsets[1];
  }
  if (end != size) {
    fail(ErrorKind::corrupt,
         formatted("{} bytes at byte {} belong to no tensor", size - end, start + end));
  }
}

}  // namespace

bool looks_like_safetensors(std::span<const std::uint8_t> bytes) {
  if (bytes.size() <= kLengthBytes || bytes[kLengthBytes] != '{') return false;
  return std::all_of(bytes.begin() + 4, bytes.begin() + 8, [](std::uint8_t b) { return b == 0; });
}

Source read_safetensors(std::span<const std::uint8_t> bytes) {
  const std::span<const std::uint8_t> text = header_text(bytes);
  std::vector<SafetensorsEntry> entries = parse_safetensors_header(text, kLengthBytes);
  // An empty tensor shares its begin with its neighbour; sorted by end too, it comes first.
  std::stable_sort(
      entries.begin(), entries.end(),
      [](const SafetensorsEntry& a, const SafetensorsEntry& b) { return a.offsets < b.offsets; });
  const std::uint64_t start = kLengthBytes + text.size();
  const std::span<const std::uint8_t> data = bytes.subspan(start);
  check_places(entries, start, data.size());
  Source source{SourceKind::safetensors, bytes.first(start), {}};
  source.tensors.reserve(entries.size());
  for (SafetensorsEntry& entry : entries) {
    source.tensors.push_back(tensor_of(std::move(entry), data));
  }
  return source;
}

}  // namespace gradwire::cli
