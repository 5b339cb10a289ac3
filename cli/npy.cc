#include "npy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "errors.h"
#include "formatted.h"
#include "source.h"

namespace gradwire::cli {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kVersionAt = 6, kLengthAt = 8;
constexpr std::uint64_t kMostHeaderBytes = 1'000'000;

struct NpyType {
  std::string_view descr;
  DType dtype;
};

/// ml_dtypes writes its types as void ("V"); as nothing is computed, a wrong guess loses nothing.
constexpr std::array<NpyType, 15> kTypes{{
    {"<f4", DType::f32},
    {"<V2", DType::bf16},
    {"<f2", DType::f16},
    {"<f8", DType::f64},
    {"|i1", DType::i8},
    {"|u1", DType::u8},
    {"<i2", DType::i16},
    {"<u2", DType::u16},
    {"<i4", DType::i32},
    {"<u4", DType::u32},
    {"<i8", DType::i64},
    {"<u8", DType::u64},
    {"|b1", DType::boolean},
    {"<V1", DType::f8_e4m3},
    {"<f1", DType::f8_e5m2},
}};

struct Layout {
  std::span<const std::uint8_t> text, data;
  std::size_t start = 0;  ///< of the text
};

/// Magic, version and header length.
Layout layout_of(std::span<const std::uint8_t> bytes) {
  if (!looks_like_npy(bytes)) {
    fail(bytes.size() < kMagic.size() ? ErrorKind::truncated : ErrorKind::corrupt,
         "not a .npy file: \\x93NUMPY is missing at byte 0");
  }
  if (bytes.size() < kLengthAt) fail(ErrorKind::truncated, "npy header ends before its version");
  const unsigned version = bytes[kVersionAt];
  if (version < 1 || version > 3) {
    fail(ErrorKind::unsupported,
         formatted("npy version {} at byte {}; 1 to 3 are known", version, kVersionAt));
  }
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  const std::size_t start = kLengthAt + length_bytes;
  if (bytes.size() < start) fail(ErrorKind::truncated, "npy header ends before its length");
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) {
    length |= std::uint64_t{bytes[kLengthAt + i]} << (8 * i);
  }
  if (length > kMostHeaderBytes) {
    fail(ErrorKind::corrupt, formatted("npy header length at byte {} is {}, at most {} are taken",
                                       kLengthAt, length, kMostHeaderBytes));
  }
  if (length > bytes.size() - start) {
    fail(ErrorKind::truncated, formatted("npy header length at byte {} is {}, but only {} follow",
                                         kLengthAt, length, bytes.size() - start));
  }
  return {bytes.subspan(start, length), bytes.subspan(start + length), start};
}

/// Single bytes have no order, and = means ours.
bool is_known_order(char order) { return order == '<' || order == '|' || order == '='; }

void refuse_layout(const NpyDict& dict) {
  if (dict.descr.size() < 3 && dict.descr != "|O") {
    fail(ErrorKind::corrupt, formatted("npy type {} is too short", in_quotes(dict.descr)));
  }
  if (dict.descr[0] == '>') {
    fail(ErrorKind::unsupported,
         formatted("npy type {} is big-endian; convert it with x.astype(x.dtype.newbyteorder('<'))",
                   in_quotes(dict.descr)));
  }
  if (dict.descr[1] == 'O') {
    fail(ErrorKind::unsupported,
         "npy arrays of Python objects hold pickles, no numbers; save numbers instead");
  }
  if (!is_known_order(dict.descr[0])) {
    fail(ErrorKind::corrupt, formatted("npy type {} has no byte order", in_quotes(dict.descr)));
  }
  if (dict.fortran_order) {
    fail(ErrorKind::unsupported,
         "npy array in Fortran order; save numpy.ascontiguousarray(x) instead");
  }
}

std::optional<DType> find_type(std::string_view descr) {
  for (const NpyType& type : kTypes) {
    if (descr.substr(1) == type.descr.substr(1)) return type.dtype;
  }
  return std::nullopt;
}

/// Bytes of an element by the digits of its type: "<c16" has 16, "<U5" has 5 characters of 4 bytes.
std::uint64_t bytes_by_name(const std::string& descr) {
  constexpr std::uint32_t kMost = 1U << 28U;
  std::uint32_t size = 0;
  const std::string digits = descr.substr(2, descr.find('[') - 2);  // "<M8[ns]" has a unit
  const char* const last = digits.data() + digits.size();
  const auto [end, error] = std::from_chars(digits.data(), last, size);
  if (end != last || error != std::errc() || size > kMost) {
    fail(ErrorKind::unsupported, formatted("npy type {} is not known", in_quotes(descr)));
  }
  return descr[1] == 'U' ? std::uint64_t{size} * 4 : size;
}

void check_size(const NpyDict& dict, std::uint64_t element_bytes, std::size_t start,
                std::size_t found) {
  const std::optional<std::uint64_t> wanted = checked_product(dict.shape, element_bytes);
  if (wanted == found) return;
  fail(wanted && *wanted < found ? ErrorKind::corrupt : ErrorKind::truncated,
       formatted("npy array of {} x {} takes {} bytes from byte {} on, the file has {}",
                 printable(dict.descr), shape_text(dict.shape),
                 wanted ? std::to_string(*wanted) : std::string("too many"), start, found));
}

}  // namespace

bool looks_like_npy(std::span<const std::uint8_t> bytes) {
  return bytes.size() >= kMagic.size() &&
         std::equal(kMagic.begin(), kMagic.end(), bytes.begin(),
                    [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; });
}

Source read_npy(std::span<const std::uint8_t> bytes) {
  const Layout layout = layout_of(bytes);
  const NpyDict dict = parse_npy_dict(layout.text, layout.start);
  refuse_layout(dict);
  const std::optional<DType> dtype = find_type(dict.descr);
  const std::uint64_t element_bytes = dtype ? element_size(*dtype) : bytes_by_name(dict.descr);
  const std::size_t start = bytes.size() - layout.data.size();
  check_size(dict, element_bytes, start, layout.data.size());
  SourceTensor tensor{"data", dtype.value_or(DType::u8), {layout.data.size()}, layout.data};
  if (dtype) {
    tensor.shape = dict.shape;
    if (dict.shape.size() > kMostDimensions) tensor.shape = {layout.data.size() / element_bytes};
  }
  return {SourceKind::npy, bytes.first(start), {std::move(tensor)}};
}

std::vector<std::uint8_t> npy_header(DType dtype, std::span<const std::uint64_t> shape) {
  constexpr std::size_t kAlignment = 64;
  const auto* const type = std::find_if(kTypes.begin(), kTypes.end(),
                                        [&](const NpyType& known) { return known.dtype == dtype; });
  std::string dims;
  for (const std::uint64_t dimension : shape) dims += formatted("{}, ", dimension);
  if (shape.size() > 1) dims.resize(dims.size() - 2);  // a single dimension keeps its comma
  std::string text =
      formatted("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type->descr, dims);
  const std::size_t start = kLengthAt + 2;
  text.append(kAlignment - 1 - (start + text.size()) % kAlignment, ' ');
  text += '\n';
  std::string header(kMagic);
  header +=
      {'\1', '\0', static_cast<char>(text.size() & 255U), static_cast<char>(text.size() >> 8U)};
  header += text;
  return {header.begin(), header.end()};
}

}  // namespace gradwire::cli
