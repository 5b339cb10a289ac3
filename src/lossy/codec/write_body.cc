// A body's bytes.
#include <algorithm>

#include "base/fail.h"
#include "base/hash.h"
#include "lossy/codec/body.h"
#include "lossy/codec/gaps.h"
#include "lossy/codec/packed.h"
#include "stages/entropy/integer_array.h"

namespace gradwire::lossy {
namespace {

using frame::Section;

/// From this density on flags may be shorter than gaps: a coded bitmap takes an eighth of a bit an
/// element at least.
constexpr std::uint64_t kFlagsFrom = 24;

void write_flags(std::span<const std::uint32_t> indices, std::uint64_t n,
                 std::vector<std::uint8_t>& flags, Bytes& out) {
  flags.assign(static_cast<std::size_t>(n), 0);
  for (const std::uint32_t i : indices) flags[i] = 1;
  ByteWriter writer(out);
  entropy::write_flags(flags, writer);
}

/// The section `selected` in its shorter form, which is returned.
Selection write_selected(std::span<const std::uint32_t> indices, std::uint64_t n,
                         BodyMemory& memory) {
  memory.section.clear();
  ByteWriter gaps(memory.section);
  write_gaps(indices, memory.gaps, gaps);
  if (indices.size() * kFlagsFrom <= n) return Selection::gaps;
  memory.packed.clear();
  write_flags(indices, n, memory.flags, memory.packed);
  if (memory.packed.size() >= memory.section.size()) return Selection::gaps;
  memory.section.swap(memory.packed);
  return Selection::flags;
}

void write_rule(const ValueRule& rule, ByteWriter& out) {
  const auto dtype = static_cast<std::uint8_t>(rule.dtype);
  switch (rule.form) {
    case ValueForm::floats:
      out.u8(dtype);
      return out.varint(zigzag(rule.shift));
    case ValueForm::levels:
      out.varint(rule.step);
      out.varint(rule.offset);
      out.varint(rule.levels);
      out.u8(rule.dtype == DType::u8 ? 1 : 2);
      break;
    case ValueForm::octets:
      out.u8(dtype);
      break;
    case ValueForm::table:
      out.u8(static_cast<std::uint8_t>(rule.table.size() - 1));
      for (const float entry : rule.table) out.u32(std::bit_cast<std::uint32_t>(entry));
      break;
  }
  out.varint(rule.bucket);
}

void write_header(const Outline& outline, Selection selection, std::uint64_t k,
                  const ValueRule& rule, Bytes& out) {
  frame::TensorHeader header;
  header.dtype = outline.dtype;
  header.dims.assign(outline.dims.begin(), outline.dims.end());
  header.pipeline = frame::Pipeline::lossy;
  ByteWriter writer(out);
  frame::write_tensor_header(header, writer);
  const auto form = k == 0 ? ValueForm::floats : rule.form;
  writer.u8(static_cast<std::uint8_t>(static_cast<unsigned>(selection) | static_cast<unsigned>(form)
                                                                             << 3));
  if (selection != Selection::all) writer.varint(k);
  if (selection == Selection::drawn) writer.u64(outline.seed);
  if (k > 0) write_rule(rule, writer);
}

void write_end(BodyEnd end, std::size_t from, Bytes& out) {
  if (end == BodyEnd::none) return;
  const std::uint64_t sum = end == BodyEnd::bare ? 0 : hash64(ByteSpan(out).subspan(from));
  Bytes payload(end == BodyEnd::archive ? 8 : 16, 0);
  store(payload.data(), sum);
  ByteWriter writer(out);
  frame::write_section(Section::check, payload, writer);
}

std::uint64_t element_product(std::span<const std::uint64_t> dims) noexcept {
  std::uint64_t n = 1;
  for (const std::uint64_t dim : dims) n *= dim;
  return n;
}

}  // namespace

BodyBytes write_body(const Outline& outline, const Coded& coded, BodyEnd end, std::size_t from,
                     BodyMemory& memory, Bytes& out) {
  const std::uint64_t n = element_product(outline.dims);
  const bool all = outline.selection == Selection::all;
  const std::uint64_t k = all ? n : outline.indices.size();
  if (!all && n > INT32_MAX)
    fail(ErrorKind::limit, "{} elements: of a tensor of 2^31 or more, all must be selected", n);
  BodyBytes bytes{.elements = n, .selected = k};
  const std::size_t start = out.size();
  Selection selection = outline.selection;
  memory.section.clear();
  if (selection == Selection::flags || selection == Selection::gaps)
    selection = write_selected(outline.indices, n, memory);
  bytes.index = memory.section.size();

  ByteWriter writer(out);
  Bytes header;
  write_header(outline, selection, k, coded.rule, header);
  frame::write_section(Section::tensor, header, writer);
  if (selection == Selection::flags || selection == Selection::gaps)
    frame::write_section(Section::selected, memory.section, writer);
  if (coded.rule.has_scales() && k > 0) {
    memory.section.clear();
    const std::uint64_t count = coded.scales.size();
    write_packed(DType::f32, {&count, 1}, bytes_of(coded.scales), memory.encoder, memory.packed,
                 memory.section);
    bytes.scales = memory.section.size();
    frame::write_section(Section::bucket_scales, memory.section, writer);
  }
  if (k > 0) {
    memory.section.clear();
    write_packed(coded.rule.dtype, all ? outline.dims : std::span(&k, 1), coded.symbols,
                 memory.encoder, memory.packed, memory.section);
    bytes.values = memory.section.size();
    frame::write_section(Section::values, memory.section, writer);
  }
  write_end(end, from, out);
  bytes.whole = out.size() - start;
  return bytes;
}

std::size_t body_bound(std::uint64_t n, std::uint64_t bucket) noexcept {
  constexpr std::uint64_t kFixed = 2048;  // header with a table, heads of sections
  constexpr std::uint64_t kMostGap = 5;   // bytes of a gap, in classes with a code of their own
  const std::uint64_t scales = bucket == 0 ? 1 : n / bucket + 1;
  return static_cast<std::size_t>(kFixed + n * (sizeof(float) + kMostGap) + scales * sizeof(float));
}

}  // namespace gradwire::lossy
