#include "frame/sections.h"

#include <algorithm>

#include "base/fail.h"

namespace gradwire::frame {
namespace {

constexpr std::array<std::uint8_t, 4> kMagic{'G', 'R', 'D', 'W'};
constexpr std::size_t kFixedPrelude = 8;

void check_version(std::uint8_t major, std::uint8_t minor) {
  if (major == kMajor && minor == kMinor) return;
  fail(ErrorKind::unsupported,
       "major, minor at byte 4: version {}.{} found, this build reads {}.{}", major, minor, kMajor,
       kMinor);
}

void check_flags(std::uint16_t flags) {
  if (flags & kStreamed) {
    fail(ErrorKind::unsupported,
         "flags at byte 6: {:#06x} asks for streamed frames, which this build does not read",
         flags);
  }
  if (flags & ~(kChecksums | kArchive | kLossy)) {
    fail(ErrorKind::corrupt, "flags at byte 6: reserved bits are set ({:#06x})", flags);
  }
}

}  // namespace

const char* section_name(Section id) noexcept {
  switch (id) {
    case Section::tensor:
      return "tensor";
    case Section::tables:
      return "tables";
    case Section::dead:
      return "dead";
    case Section::scales:
      return "scales";
    case Section::signs:
      return "signs";
    case Section::taps:
      return "taps";
    case Section::index:
      return "index";
    case Section::chunks:
      return "chunks";
    case Section::trailer:
      return "trailer";
    case Section::selected:
      return "selected";
    case Section::bucket_scales:
      return "bucket_scales";
    case Section::values:
      return "values";
    case Section::check:
      return "check";
    case Section::source:
      return "source";
    case Section::shared_tables:
      return "shared_tables";
    case Section::tensors:
      return "tensors";
    case Section::directory:
      return "directory";
    case Section::footer:
      return "footer";
  }
  return "section";
}

std::optional<Prelude> peek_prelude(ByteSpan frame) {
  const std::size_t known = std::min(frame.size(), kMagic.size());
  if (!std::equal(kMagic.begin(), kMagic.begin() + static_cast<std::ptrdiff_t>(known),
                  frame.begin())) {
    fail(ErrorKind::corrupt,
         "magic at byte 0: this is no gradwire frame (it must begin with GRDW)");
  }
  if (frame.size() >= 6) check_version(frame[4], frame[5]);
  if (frame.size() >= kFixedPrelude) check_flags(load<std::uint16_t>(frame.data() + 6));
  std::size_t end = kFixedPrelude;
  while (end < frame.size() && end < kMaxPrelude && frame[end] >= 128) ++end;
  if (end >= frame.size()) return std::nullopt;
  ByteReader in(frame.subspan(kFixedPrelude), kFixedPrelude);
  Prelude prelude;
  prelude.flags = load<std::uint16_t>(frame.data() + 6);
  prelude.body_bytes = in.varint("body_bytes");
  prelude.header_bytes = in.offset();
  return prelude;
}

void refuse_surplus(std::uint64_t bytes) {
  fail(ErrorKind::corrupt, "body_bytes at byte 8: {} bytes follow the frame's end", bytes);
}

Prelude read_prelude(ByteSpan frame) {
  const auto prelude = peek_prelude(frame);
  const std::uint64_t found = prelude ? frame.size() - prelude->header_bytes : 0;
  if (!prelude)
    fail(ErrorKind::truncated, "frame: {} bytes are too few for its first fields", frame.size());
  if (found < prelude->body_bytes) {
    fail(ErrorKind::truncated,
         "body_bytes at byte 8: the frame needs {} bytes after byte {}, {} are there",
         prelude->body_bytes, prelude->header_bytes, found);
  }
  if (found > prelude->body_bytes) refuse_surplus(found - prelude->body_bytes);
  return *prelude;
}

void write_prelude(std::uint16_t flags, std::uint64_t body_bytes, ByteWriter& out) {
  out.bytes(kMagic);
  out.u8(kMajor);
  out.u8(kMinor);
  out.u16(flags);
  out.varint(body_bytes);
}

void Sections::read(ByteSpan bytes, std::size_t origin, std::initializer_list<Section> allowed) {
  ByteReader in(bytes, origin);
  while (in.left() > 0) {
    Span span;
    span.id_offset = in.offset();
    const std::uint8_t id = in.u8("section id");
    if (id == 0 || static_cast<int>(id) <= previous_) {
      fail(ErrorKind::corrupt, "section id at byte {}: {} found behind {}, ids must ascend from 1",
           span.id_offset, id, previous_);
    }
    previous_ = id;
    const std::uint64_t length = in.varint("section length");
    span.offset = in.offset();
    if (length > in.left()) {
      fail(ErrorKind::truncated, "section {} at byte {}: length {} found, {} bytes are left", id,
           span.id_offset, length, in.left());
    }
    span.bytes = in.bytes("section", static_cast<std::size_t>(length));
    span.present = true;
    if (std::find(allowed.begin(), allowed.end(), static_cast<Section>(id)) != allowed.end()) {
      spans_[id] = span;
    } else if (id < 128) {
      fail(ErrorKind::unsupported, "section id at byte {}: {} is not known here", span.id_offset,
           id);
    }
  }
}

void Sections::skip(Section id, std::size_t id_offset, std::size_t offset) noexcept {
  spans_[static_cast<std::size_t>(id)] = {
      .bytes = {}, .offset = offset, .id_offset = id_offset, .present = true};
  previous_ = static_cast<int>(id);
}

const Span& Sections::required(Section id) const {
  const Span& span = (*this)[id];
  if (!span.present)
    fail(ErrorKind::corrupt, "section {} ({}): missing", static_cast<int>(id), section_name(id));
  return span;
}

std::optional<ChunksPlace> find_chunks(ByteSpan start, const Prelude& prelude) {
  const std::uint64_t end = prelude.header_bytes + prelude.body_bytes;
  std::size_t at = prelude.header_bytes;
  while (at < start.size() && start[at] <= static_cast<std::uint8_t>(Section::chunks)) {
    std::size_t last = at + 1;  // byte of the length
    while (last < start.size() && start[last] >= 128) ++last;
    if (last >= start.size()) return std::nullopt;
    ByteReader in(start.subspan(at + 1), at + 1);
    const std::uint64_t length = in.varint("section length");
    const std::size_t payload = in.offset();
    if (payload > end || length > end - payload) return std::nullopt;
    if (start[at] == static_cast<std::uint8_t>(Section::chunks)) {
      return ChunksPlace{.id_offset = at, .offset = payload, .length = length};
    }
    if (length > start.size() - payload) return std::nullopt;
    at = payload + static_cast<std::size_t>(length);
  }
  return std::nullopt;
}

void write_section(Section id, ByteSpan payload, ByteWriter& out) {
  out.u8(static_cast<std::uint8_t>(id));
  out.varint(payload.size());
  out.bytes(payload);
}

std::size_t section_bytes(std::size_t payload) noexcept {
  return 1 + varint_size(payload) + payload;
}

}  // namespace gradwire::frame
