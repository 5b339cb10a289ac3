#include "frame/tensor_body.h"

#include <algorithm>
#include <initializer_list>

#include "base/fail.h"
#include "base/hash.h"

namespace gradwire::frame {
namespace {

constexpr std::initializer_list<Section> kTensorSections = {
    Section::tensor, Section::tables, Section::dead,   Section::scales, Section::signs,
    Section::taps,   Section::index,  Section::chunks, Section::trailer};
constexpr std::initializer_list<Section> kAllSections = {
    Section::tensor,        Section::tables, Section::dead,   Section::scales,  Section::signs,
    Section::taps,          Section::index,  Section::chunks, Section::trailer, Section::selected,
    Section::bucket_scales, Section::values, Section::check};

ChunkEntry read_entry(ByteReader& in, bool has_second) {
  ChunkEntry entry;
  const std::size_t at = in.offset();
  const unsigned info = in.u8("index info");
  entry.kind = static_cast<ChunkKind>(info & 3);
  entry.table = static_cast<std::uint8_t>(info >> 4);
  const bool coded = entry.kind == ChunkKind::coded || entry.kind == ChunkKind::mapped;
  if ((info & 12) != 0 || (!coded && entry.table != 0)) {
    fail(ErrorKind::corrupt, "index info at byte {}: reserved bits are set ({:#04x})", at, info);
  }
  if (coded && has_second) {
    entry.second = in.u8("index second");
    if (entry.second > 15)
      fail(ErrorKind::corrupt, "index second at byte {}: {} found, at most 15 allowed", at,
           entry.second);
  }
  entry.length = in.varint("index length");
  return entry;
}

void check_length(const TensorHeader& header, std::uint64_t c, const ChunkEntry& entry) {
  const std::uint64_t size = header.element_bytes();
  const bool right = entry.kind == ChunkKind::constant ? entry.length == 0 || entry.length == size
                     : entry.kind == ChunkKind::stored ? entry.length == header.chunk_size(c) * size
                                                       : true;
  if (!right) {
    fail(ErrorKind::corrupt, "index, chunk {}: length {} is not that of {} chunk", c, entry.length,
         entry.kind == ChunkKind::constant ? "a constant" : "a stored");
  }
}

/// `available`: bytes of the payload of `chunks`.
void read_index(TensorBody& body, std::uint64_t available) {
  const Span& span = body.sections.required(Section::index);
  const std::uint64_t chunks = body.header.chunk_count();
  // An entry takes two bytes at least, so a lying chunk count cannot ask for memory.
  if (span.bytes.size() / 2 < chunks) {
    fail(ErrorKind::corrupt, "index at byte {}: {} bytes are too few for {} chunks", span.offset,
         span.bytes.size(), chunks);
  }
  body.index.reserve(static_cast<std::size_t>(chunks));
  ByteReader in = span.reader();
  std::uint64_t offset = 0;
  for (std::uint64_t c = 0; c < chunks; ++c) {
    ChunkEntry entry = read_entry(in, body.has_second);
    check_length(body.header, c, entry);
    if (entry.length > available - offset) {
      fail(ErrorKind::corrupt, "index, chunk {}: length {} found, {} bytes of chunks are left", c,
           entry.length, available - offset);
    }
    entry.offset = offset;
    offset += entry.length;
    body.index.push_back(entry);
  }
  in.expect_end("index");
  if (offset != available) {
    fail(ErrorKind::corrupt, "index: lengths sum to {}, the section chunks has {} bytes", offset,
         available);
  }
}

void check_trailer(const TensorBody& body) {
  const Span& span = body.sections[Section::trailer];
  const std::uint64_t chunks = body.header.elements == 0 ? 0 : body.header.chunk_count();
  const std::size_t expected = trailer_bytes(chunks, body.checksums, body.in_archive);
  if (span.bytes.size() != expected || span.present != (expected > 0)) {
    fail(ErrorKind::corrupt, "trailer at byte {}: {} bytes found, {} expected", span.offset,
         span.bytes.size(), expected);
  }
  const std::size_t used =
      body.checksums ? static_cast<std::size_t>(std::max<std::uint64_t>(chunks, 1)) * 8 : 0;
  if (expected > used &&
      std::any_of(span.bytes.begin() + static_cast<std::ptrdiff_t>(used), span.bytes.end(),
                  [](std::uint8_t byte) { return byte != 0; })) {
    fail(ErrorKind::corrupt, "trailer at byte {}: padding is not zero", span.offset + used);
  }
}

void check_absent(const TensorBody& body, std::initializer_list<Section> ids, const char* why) {
  for (const Section id : ids) {
    if (body.sections[id].present) {
      fail(ErrorKind::corrupt, "section {} at byte {}: must be absent, {}", section_name(id),
           body.sections[id].id_offset, why);
    }
  }
}

void read_header(TensorBody& body, std::uint64_t max_output) {
  ByteReader in = body.sections.required(Section::tensor).reader();
  body.header = read_tensor_header(in);
  if (body.header.pipeline == Pipeline::lossy) refuse_lossy();
  if (body.header.bytes() > max_output) {
    fail(ErrorKind::limit,
         "tensor: {} bytes of output are more than the limit of {}; raise max_output to allow it",
         body.header.bytes(), max_output);
  }
  body.has_second = has_second_sequence(body.header);
  if (body.header.elements == 0) {
    check_absent(body,
                 {Section::tables, Section::dead, Section::scales, Section::signs, Section::taps,
                  Section::index, Section::chunks},
                 "the tensor is empty");
  }
}

}  // namespace

void refuse_lossy() { fail(ErrorKind::corrupt, "tensor: a lossy body where an exact one is due"); }

bool has_second_sequence(const TensorHeader& header) noexcept {
  return (header.pipeline == Pipeline::scaled && header.scaled.counted && !header.scaled.joint) ||
         header.pipeline == Pipeline::kernels;
}

std::size_t trailer_bytes(std::uint64_t chunks, bool checksums, bool in_archive) noexcept {
  const std::size_t sums =
      checksums ? static_cast<std::size_t>(std::max<std::uint64_t>(chunks, 1)) * 8 : 0;
  return chunks == 0 || in_archive ? sums : std::max(sums, kTrailerSlack);
}

TensorBody read_tensor_body(ByteSpan bytes, std::size_t prelude, std::size_t origin, bool checksums,
                            std::uint64_t max_output) {
  TensorBody body;
  body.checksums = checksums;
  body.in_archive = prelude == 0;
  body.sections.read(bytes.subspan(prelude), origin + prelude, kTensorSections);
  read_header(body, max_output);
  if (body.header.elements > 0) {
    body.window = body.sections.required(Section::chunks).bytes;
    read_index(body, body.window.size());
  }
  check_trailer(body);
  const Span& end = body.sections[body.header.elements == 0 ? Section::trailer : Section::chunks];
  const std::size_t head = (body.header.elements == 0 ? end.id_offset : end.offset) - origin;
  if (checksums) body.head_hash = hash64(bytes.first(head));
  return body;
}

TensorHeader peek_tensor_header(ByteSpan body, std::size_t origin) {
  const Sections sections(body, origin, kAllSections);
  ByteReader in = sections.required(Section::tensor).reader();
  return read_tensor_header(in);
}

TensorBody read_tensor_head(ByteSpan head, const Prelude& prelude, const ChunksPlace& chunks,
                            std::uint64_t max_output) {
  TensorBody body;
  body.checksums = prelude.checksums();
  const std::size_t begin = prelude.header_bytes;
  body.sections.read(head.subspan(begin, chunks.id_offset - begin), begin, kTensorSections);
  body.sections.skip(Section::chunks, chunks.id_offset, chunks.offset);
  read_header(body, max_output);
  read_index(body, chunks.length);
  if (body.checksums) body.head_hash = hash64(head);
  return body;
}

void read_tensor_rest(TensorBody& body, ByteSpan rest, std::size_t origin) {
  body.sections.read(rest, origin, {Section::trailer});
  check_trailer(body);
}

std::uint64_t chunk_checksum(std::uint64_t head_hash, std::uint64_t c, ByteSpan decoded,
                             ByteSpan side) noexcept {
  return hash64(decoded, head_hash + c + (side.empty() ? 0 : hash64(side)));
}

void check_checksum(const TensorBody& body, std::uint64_t c, std::uint64_t found) {
  const Span& trailer = body.sections[Section::trailer];
  const std::uint64_t expected = load<std::uint64_t>(trailer.bytes.data() + 8 * c);
  if (found != expected) {
    fail(ErrorKind::corrupt,
         "checksum of chunk {} at byte {}: {:016x} expected, the decoded bytes give {:016x}", c,
         trailer.offset + 8 * c, expected, found);
  }
}

void verify_chunk(const TensorBody& body, std::uint64_t c, ByteSpan decoded, ByteSpan side) {
  check_checksum(body, c,
                 body.header.elements == 0 ? body.head_hash
                                           : chunk_checksum(body.head_hash, c, decoded, side));
}

void write_index(const std::vector<ChunkEntry>& index, bool has_second, ByteWriter& out) {
  for (const ChunkEntry& entry : index) {
    const bool coded = entry.kind == ChunkKind::coded || entry.kind == ChunkKind::mapped;
    out.u8(static_cast<std::uint8_t>(static_cast<unsigned>(entry.kind) |
                                     (coded ? entry.table << 4 : 0)));
    if (coded && has_second) out.u8(entry.second);
    out.varint(entry.length);
  }
}

}  // namespace gradwire::frame
