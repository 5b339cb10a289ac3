#include "lossy/codec/packed.h"

#include <algorithm>

#include "base/fail.h"
#include "lossless/tensor_decoder.h"

namespace gradwire::lossy {
namespace {

enum Form : std::uint8_t { kPlain = 0, kCoded = 1 };

/// A body takes this many bytes before it saves any: fewer elements are left as they are.
constexpr std::size_t kLeastBody = 24;

}  // namespace

void write_packed(DType dtype, std::span<const std::uint64_t> dims, ByteSpan elements,
                  lossless::EncoderMemory& memory, Bytes& body, Bytes& out) {
  body.clear();
  if (elements.size() > kLeastBody) {
    CompressOptions options;
    options.checksum = false;
    lossless::encode_tensor({dtype, dims, elements}, options, true, memory, body);
  }
  const bool pays = !body.empty() && body.size() < elements.size();
  ByteWriter writer(out);
  writer.u8(pays ? kCoded : kPlain);
  writer.bytes(pays ? ByteSpan(body) : elements);
}

void read_packed(const frame::Span& section, const char* field, DType dtype,
                 std::span<const std::uint64_t> dims, lossless::Scratch& scratch,
                 std::span<std::uint8_t> elements) {
  ByteReader in = section.reader();
  const unsigned form = in.u8(field);
  if (form > kCoded)
    fail(ErrorKind::corrupt, "{} at byte {}: form {} found, allowed are 0 and 1", field,
         section.offset, form);
  if (form == kPlain) {
    const ByteSpan plain = in.bytes(field, elements.size());
    in.expect_end(field);
    std::copy(plain.begin(), plain.end(), elements.begin());
    return;
  }
  const std::size_t at = in.offset();
  // Nothing is sized from its header, which is compared with what is expected, but by its bytes.
  const frame::TensorBody body = frame::read_tensor_body(in.rest(), 0, at, false, UINT64_MAX);
  if (body.header.dtype != dtype || !std::ranges::equal(body.header.dims, dims))
    fail(ErrorKind::corrupt, "{} at byte {}: the body is not one of {} of shape ({})", field, at,
         dtype_name(dtype), fmt::join(dims, ", "));
  lossless::TensorDecoder(body, false).decode_all(elements, scratch);
}

}  // namespace gradwire::lossy
