// A body's header, checked, and its values.
#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "base/fail.h"
#include "base/hash.h"
#include "frame/tensor_body.h"
#include "lossy/codec/body.h"
#include "lossy/codec/elements.h"
#include "lossy/codec/gaps.h"
#include "lossy/codec/packed.h"
#include "lossy/select/parts.h"
#include "stages/entropy/integer_array.h"

namespace gradwire::lossy {
namespace {

using frame::Section;

constexpr std::initializer_list<Section> kSections = {
    Section::tensor, Section::selected, Section::bucket_scales, Section::values, Section::check};
constexpr std::uint64_t kMaxBucket = std::uint64_t{1} << 31;
constexpr std::int64_t kMaxShift = 300;

DType read_dtype(ByteReader& in, std::initializer_list<DType> allowed) {
  const std::size_t at = in.offset();
  const auto dtype = static_cast<DType>(in.u8("values dtype"));
  if (std::ranges::find(allowed, dtype) == allowed.end())
    fail(ErrorKind::corrupt, "values dtype at byte {}: {} found, which these values do not have",
         at, static_cast<unsigned>(dtype));
  return dtype;
}

std::uint32_t read_ranged(ByteReader& in, const char* field, std::uint32_t least,
                          std::uint32_t most) {
  const std::size_t at = in.offset();
  const auto value = static_cast<std::uint32_t>(in.count(field, most));
  if (value < least)
    fail(ErrorKind::corrupt, "{} at byte {}: {} found, {} to {} allowed", field, at, value, least,
         most);
  return value;
}

void read_floats(ByteReader& in, ValueRule& rule) {
  rule.dtype = read_dtype(in, {DType::f32, DType::bf16, DType::f16});
  const std::size_t at = in.offset();
  const std::int64_t shift = unzigzag(in.varint("shift"));
  if (shift < -kMaxShift || shift > kMaxShift)
    fail(ErrorKind::corrupt, "shift at byte {}: {} found, {} to {} allowed", at, shift, -kMaxShift,
         kMaxShift);
  rule.shift = static_cast<std::int32_t>(shift);
}

void read_levels(ByteReader& in, ValueRule& rule) {
  rule.step = read_ranged(in, "step", 1, 2);
  rule.offset = read_ranged(in, "offset", 0, 65535);
  rule.levels = read_ranged(in, "levels", 1, 32767);
  const std::size_t at = in.offset();
  const unsigned width = in.u8("width");
  if (width != 1 && width != 2)
    fail(ErrorKind::corrupt, "width at byte {}: {} found, 1 and 2 allowed", at, width);
  rule.dtype = width == 1 ? DType::u8 : DType::u16;
}

void read_table(ByteReader& in, ValueRule& rule) {
  rule.dtype = DType::u8;
  rule.table.resize(std::size_t{in.u8("entries")} + 1);
  for (float& entry : rule.table) {
    const std::size_t at = in.offset();
    entry = std::bit_cast<float>(in.u32("table"));
    if (!std::isfinite(entry))
      fail(ErrorKind::corrupt, "table at byte {}: an entry that is not finite", at);
  }
}

ValueRule read_rule(ByteReader& in, ValueForm form) {
  ValueRule rule;
  rule.form = form;
  switch (form) {
    case ValueForm::floats:
      read_floats(in, rule);
      return rule;
    case ValueForm::levels:
      read_levels(in, rule);
      break;
    case ValueForm::octets:
      rule.dtype = read_dtype(in, {DType::f8_e4m3, DType::f8_e5m2});
      break;
    case ValueForm::table:
      read_table(in, rule);
      break;
  }
  rule.bucket = in.count("bucket", kMaxBucket);
  return rule;
}

void read_form(ByteReader& in, Body& body) {
  const std::size_t at = in.offset();
  const unsigned form = in.u8("form");
  if ((form & 7) > 3 || form >> 3 > 3)
    fail(ErrorKind::corrupt, "form at byte {}: {:#04x} is none", at, form);
  body.selection = static_cast<Selection>(form & 7);
  body.selected = body.header.elements;
  if (body.selection != Selection::all) {
    if (body.header.elements > INT32_MAX)
      fail(ErrorKind::corrupt, "form at byte {}: a selection of {} elements, below 2^31 allowed",
           at, body.header.elements);
    body.selected = in.count("k", body.header.elements);
  }
  if (body.selection == Selection::drawn) {
    body.seed = in.u64("seed");
    if (body.selected == 0) fail(ErrorKind::corrupt, "k at byte {}: 0 drawn", at + 1);
  }
  if (body.selected > 0) {
    body.rule = read_rule(in, static_cast<ValueForm>(form >> 3));
  } else if (form >> 3 != 0) {
    fail(ErrorKind::corrupt, "form at byte {}: {:#04x} has values, none are selected", at, form);
  }
}

/// A section is there if and only if it has to be.
void check_presence(const Body& body, Section id, bool expected) {
  if (body.sections[id].present == expected) return;
  fail(ErrorKind::corrupt, "section {} is {}", frame::section_name(id),
       expected ? "missing" : "there without a need for it");
}

void check_sections(const Body& body, BodyEnd end) {
  const bool has_indices = body.selection == Selection::flags || body.selection == Selection::gaps;
  check_presence(body, Section::selected, has_indices);
  check_presence(body, Section::bucket_scales, body.rule.has_scales() && body.selected > 0);
  check_presence(body, Section::values, body.selected > 0);
  check_presence(body, Section::check, end != BodyEnd::none);
}

void check_end(const Body& body, const BodyPlace& place, ByteSpan bytes) {
  if (place.end == BodyEnd::none) return;
  const frame::Span& span = body.sections[Section::check];
  const std::size_t size = place.end == BodyEnd::archive ? 8 : 16;
  if (span.bytes.size() != size)
    fail(ErrorKind::corrupt, "check at byte {}: {} bytes found, {} expected", span.offset,
         span.bytes.size(), size);
  const auto sum = load<std::uint64_t>(span.bytes.data());
  if (size == 16 && load<std::uint64_t>(span.bytes.data() + 8) != 0)
    fail(ErrorKind::corrupt, "check at byte {}: padding is not zero", span.offset + 8);
  if (place.end == BodyEnd::bare) {
    if (sum == 0) return;
    fail(ErrorKind::corrupt, "check at byte {}: a checksum in a frame without", span.offset);
  }
  const std::uint64_t found =
      place.verify ? hash64(bytes.first(span.id_offset - place.origin)) : sum;
  if (found != sum)
    fail(ErrorKind::corrupt, "check at byte {}: {:016x} expected, the bytes give {:016x}",
         span.offset, sum, found);
}

// --- values ------------------------------------------------------------------------

void read_flagged(const Body& body, DecodeMemory& memory, Indices& indices) {
  const frame::Span& span = body.sections[Section::selected];
  memory.flags.resize(static_cast<std::size_t>(body.header.elements));
  ByteReader in = span.reader();
  entropy::read_flags(in, memory.flags, "selected");
  in.expect_end("selected");
  const auto count = static_cast<std::uint64_t>(std::ranges::count(memory.flags, 1));
  if (count != body.selected)
    fail(ErrorKind::corrupt, "selected at byte {}: {} flags are set, k is {}", span.offset, count,
         body.selected);
  std::size_t at = 0;
  for (std::uint32_t i = 0; at < indices.size(); ++i)
    if (memory.flags[i] != 0) indices[at++] = i;
}

void read_gap_section(const Body& body, DecodeMemory& memory, Indices& indices) {
  ByteReader in = body.sections[Section::selected].reader();
  read_gaps(in, body.header.elements, "selected", memory.gaps, indices);
  in.expect_end("selected");
}

void draw(const Body& body, DecodeMemory& memory, Indices& indices) {
  const SelectOptions options{.selector = Selector::random_k,
                              .count = static_cast<std::size_t>(body.selected),
                              .seed = body.seed};
  select_random_k(static_cast<std::size_t>(body.header.elements), options, memory.select, indices);
}

/// Selected elements are bounded by bytes that are there, but for those drawn by a seed and a flag
/// map, which the tensor's own size bounds.
void read_indices(const Body& body, DecodeMemory& memory, Indices& indices) {
  indices.resize(static_cast<std::size_t>(body.selected));
  switch (body.selection) {
    case Selection::all:
      return;
    case Selection::flags:
      return read_flagged(body, memory, indices);
    case Selection::gaps:
      return read_gap_section(body, memory, indices);
    case Selection::drawn:
      return draw(body, memory, indices);
  }
}

std::span<std::uint8_t> bytes_of(std::vector<float>& values) noexcept {
  return {reinterpret_cast<std::uint8_t*>(values.data()), values.size() * sizeof(float)};
}

}  // namespace

Body read_body(ByteSpan bytes, const BodyPlace& place, std::uint64_t max_output) {
  Body body;
  body.sections.read(bytes.subspan(place.prelude), place.origin + place.prelude, kSections);
  ByteReader in = body.sections.required(Section::tensor).reader();
  body.header = frame::read_tensor_header(in);
  if (body.header.elements == 0 || body.header.pipeline != frame::Pipeline::lossy ||
      !is_lossy_dtype(body.header.dtype))
    fail(ErrorKind::corrupt, "tensor: no lossy body of f32, bf16 or f16");
  if (body.header.bytes() > max_output)
    fail(ErrorKind::limit,
         "tensor: {} bytes of output are more than the limit of {}; raise max_output to allow it",
         body.header.bytes(), max_output);
  read_form(in, body);
  in.expect_end("tensor");
  check_sections(body, place.end);
  check_end(body, place, bytes);
  body.is_checked = place.end == BodyEnd::archive || place.end == BodyEnd::frame;
  return body;
}

bool is_lossy_body(ByteSpan body) noexcept {
  try {
    return frame::peek_tensor_header(body, 0).pipeline == frame::Pipeline::lossy;
  } catch (const Error&) {
    return false;  // whoever reads it as an exact one will say why
  }
}

void decode_body(const Body& body, DecodeMemory& memory, Selected& out) {
  const auto k = static_cast<std::size_t>(body.selected);
  out.all = body.selection == Selection::all;
  out.indices.clear();
  if (!out.all) read_indices(body, memory, out.indices);
  out.values.resize(k);
  if (k == 0) return;
  const std::uint64_t scales = body.rule.scale_count(k);
  memory.scales.resize(static_cast<std::size_t>(scales));
  if (scales > 0)
    read_packed(body.sections[Section::bucket_scales], "bucket_scales", DType::f32, {&scales, 1},
                memory.scratch, bytes_of(memory.scales));
  memory.symbols.resize(k * element_size(body.rule.dtype));
  const std::span<const std::uint64_t> dims =
      out.all ? std::span<const std::uint64_t>(body.header.dims) : std::span(&body.selected, 1);
  read_packed(body.sections[Section::values], "values", body.rule.dtype, dims, memory.scratch,
              memory.symbols);
  restore_values(body.rule, memory.symbols, memory.scales, out.values);
}

}  // namespace gradwire::lossy
