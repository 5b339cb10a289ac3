// In: how a body ends, then its bytes, or a made-up body's parts. Out: a lossy body is refused or
// decodes to finite values in ascending places, alike however often; written anew it gives the
// same.

#include <cmath>

#include "base/hash.h"
#include "fuzz_input.h"
#include "lossy/codec/body.h"

namespace {

using namespace gradwire;
using namespace gradwire::lossy;
using fuzz::expect;

constexpr std::uint64_t kBudget = std::uint64_t{1} << 20;
constexpr std::size_t kSlack = 16;

Bytes elements_of(const Body& body, const Selected& selected) {
  Bytes elements(static_cast<std::size_t>(body.header.bytes()), 0xAA);
  place_values(selected, body.header.dtype, elements);
  return elements;
}

void check_selected(const Body& body, const Selected& selected) {
  expect(selected.values.size() == body.selected, "a value for each selected element");
  for (const float value : selected.values) expect(std::isfinite(value), "values are finite");
  expect(selected.all || selected.indices.size() == body.selected, "a place for each of them");
  std::uint64_t next = 0;
  for (const std::uint32_t index : selected.indices) {
    expect(index >= next && index < body.header.elements, "places ascend and are elements");
    next = std::uint64_t{index} + 1;
  }
}

/// In f32, whose body has all bits of the values.
void write_again(const Body& body, const Selected& selected) {
  Coded coded;
  coded.symbols.resize(selected.values.size() * sizeof(float));
  if (!selected.values.empty())
    std::memcpy(coded.symbols.data(), selected.values.data(), coded.symbols.size());
  Outline outline{.dtype = body.header.dtype,
                  .dims = body.header.dims,
                  .selection = body.selection,
                  .indices = selected.indices,
                  .seed = body.seed};
  BodyMemory memory;
  Bytes bytes;
  write_body(outline, coded, BodyEnd::none, 0, memory, bytes);
  const std::size_t size = bytes.size();
  bytes.resize(size + kSlack);
  const Body again = read_body(ByteSpan(bytes).first(size), BodyPlace{}, kBudget);
  DecodeMemory decode;
  Selected back;
  decode_body(again, decode, back);
  expect(elements_of(again, back) == elements_of(body, selected), "a body written anew is alike");
}

void decode(const Bytes& bytes, const BodyPlace& place, Bytes* elements) {
  // Exactly the bytes and those that may be read behind.
  Bytes exact(bytes.size() + kSlack, 0x5A);
  std::copy(bytes.begin(), bytes.end(), exact.begin());
  const ByteSpan span = ByteSpan(exact).first(bytes.size());
  is_lossy_body(span);
  const Body body = read_body(span, place, kBudget);
  DecodeMemory memory;
  Selected selected;
  decode_body(body, memory, selected);
  check_selected(body, selected);
  *elements = elements_of(body, selected);
  decode_body(body, memory, selected);
  expect(elements_of(body, selected) == *elements, "used memory makes no difference");
  write_again(body, selected);
}

/// False for what is refused.
bool accepted(const Bytes& bytes, const BodyPlace& place, Bytes* elements) {
  try {
    decode(bytes, place, elements);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// The same body with the checksum that it should have.
void check_again(Bytes bytes, const Bytes& elements) {
  const std::uint64_t sum = hash64(bytes);
  bytes.push_back(static_cast<std::uint8_t>(frame::Section::check));
  bytes.push_back(8);
  bytes.resize(bytes.size() + 8);
  store(bytes.data() + bytes.size() - 8, sum);
  Bytes checked;
  expect(accepted(bytes, {.end = BodyEnd::archive}, &checked), "a right checksum is accepted");
  expect(checked == elements, "a checksum changes nothing");
  bytes.back() ^= 1;
  expect(!accepted(bytes, {.end = BodyEnd::archive}, &checked), "a wrong checksum is refused");
}

bool has_optional_sections(const Bytes& bytes) {
  try {
    const frame::Sections sections(bytes, 0,
                                   {frame::Section::tensor, frame::Section::selected,
                                    frame::Section::bucket_scales, frame::Section::values});
    const auto& last = sections[frame::Section::values].present
                           ? sections[frame::Section::values]
                           : sections[frame::Section::selected];
    return last.bytes.data() + last.bytes.size() != bytes.data() + bytes.size();
  } catch (const Error&) {
    return true;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto end = static_cast<BodyEnd>(data[0] & 3);
  const Bytes bytes(data + 1, data + size);
  Bytes elements;
  const BodyPlace place{.end = end, .verify = (data[0] & 4) == 0};
  const bool sound = accepted(bytes, place, &elements);
  if (sound && end == BodyEnd::none && !has_optional_sections(bytes)) check_again(bytes, elements);
  return 0;
}
