#include "frame/archive.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "base/fail.h"
#include "base/hash.h"

namespace gradwire::frame {
namespace {

constexpr std::size_t kFooterBytes = 16;

/// Length of the UTF-8 sequence that starts at `at`, 0 when it is not well formed.
std::size_t utf8_length(std::string_view text, std::size_t at) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned>(static_cast<unsigned char>(text[i])); };
  const unsigned lead = byte(at);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || at + length > text.size()) return 0;
  for (std::size_t k = 1; k < length; ++k) {
    if ((byte(at + k) & 0xC0) != 0x80) return 0;
  }
  const unsigned second = byte(at + 1);
  const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool outside = (lead == 0xED && second > 0x9F) || (lead == 0xF4 && second > 0x8F);
  return overlong || outside ? 0 : length;
}

bool is_utf8(std::string_view text) noexcept {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

void read_source(const Span& span, Archive& archive) {
  if (!span.present) return;
  ByteReader in = span.reader();
  const unsigned kind = in.u8("source kind");
  if (kind < 1 || kind > 3) fail(ErrorKind::unsupported, "source kind at byte {}: id {} is not known", span.offset, kind);
  archive.source = static_cast<Source>(kind);
  archive.source_bytes = in.count("source raw_bytes", kMaxSourceBytes - 1);
  archive.source_coded.offset = in.offset();
  archive.source_coded.bytes = in.rest();
  archive.source_coded.present = true;
}

void read_directory(const Span& span, const Span& tensors, Archive& archive) {
  ByteReader in = span.reader();
  const std::uint64_t count = in.count("directory count", span.bytes.size() / 2);
  std::unordered_set<std::string_view> names;
  std::uint64_t offset = 0;
  archive.entries.reserve(static_cast<std::size_t>(count));
  for (std::uint64_t k = 0; k < count; ++k) {
    const std::size_t at = in.offset();
    const ByteSpan bytes = in.bytes("name", static_cast<std::size_t>(in.count("name length", kMaxName)));
    ArchiveEntry entry{std::string(bytes.begin(), bytes.end()), tensors.offset + offset, in.varint("body length")};
    if (!is_utf8(entry.name)) fail(ErrorKind::corrupt, "name at byte {}: not UTF-8", at);
    if (entry.length > tensors.bytes.size() - offset) {
      fail(ErrorKind::corrupt, "body length at byte {}: {} found, {} bytes of tensors are left", at, entry.length,
           tensors.bytes.size() - offset);
    }
    offset += entry.length;
    archive.entries.push_back(std::move(entry));
    if (!names.insert(archive.entries.back().name).second) {
      fail(ErrorKind::corrupt, "name at byte {}: '{}' stands twice in the directory", at, archive.entries.back().name);
    }
  }
  in.expect_end("directory");
  if (offset != tensors.bytes.size()) {
    fail(ErrorKind::corrupt, "directory: body lengths sum to {}, the section tensors has {} bytes", offset, tensors.bytes.size());
  }
}

void check_footer(ByteSpan frame, const Sections& sections, const Archive& archive, bool verify) {
  const Span& footer = sections.required(Section::footer);
  if (footer.bytes.size() != kFooterBytes || footer.offset + kFooterBytes != frame.size()) {
    fail(ErrorKind::corrupt, "footer at byte {}: must be the last 16 bytes", footer.offset);
  }
  const auto directory = load<std::uint64_t>(footer.bytes.data());
  if (directory != sections[Section::directory].id_offset) {
    fail(ErrorKind::corrupt, "footer at byte {}: directory at {} found, it is at {}", footer.offset, directory,
         sections[Section::directory].id_offset);
  }
  const auto expected = load<std::uint64_t>(footer.bytes.data() + 8);
  if (!archive.checksums) {
    if (expected != 0) fail(ErrorKind::corrupt, "footer at byte {}: hash without checksums must be 0", footer.offset + 8);
    return;
  }
  if (!verify) return;
  const Span& tensors = sections[Section::tensors];
  const std::size_t behind = tensors.offset + tensors.bytes.size();
  const std::uint64_t found = hash64(frame.first(tensors.offset), frame.subspan(behind, footer.offset + 8 - behind));
  if (found != expected) {
    fail(ErrorKind::corrupt, "footer hash at byte {}: {:016x} expected, the frame gives {:016x}", footer.offset + 8, expected, found);
  }
}

}  // namespace

Archive read_archive(ByteSpan frame, bool verify) {
  const Prelude prelude = read_prelude(frame);
  if (!prelude.archive()) {
    fail(ErrorKind::invalid_argument, "flags at byte 6: this frame holds a single tensor, not an archive");
  }
  const Sections sections(frame.subspan(prelude.header_bytes), prelude.header_bytes,
                          {Section::source, Section::tensors, Section::directory, Section::footer});
  Archive archive;
  archive.checksums = prelude.checksums();
  const Span& tensors = sections.required(Section::tensors);
  const Span& directory = sections.required(Section::directory);
  check_footer(frame, sections, archive, verify);
  read_source(sections[Section::source], archive);
  read_directory(directory, tensors, archive);
  return archive;
}

Bytes write_archive(ByteSpan source_payload, ByteSpan tensors, const std::vector<ArchiveEntry>& entries, bool checksums) {
  Bytes directory;
  ByteWriter names(directory);
  names.varint(entries.size());
  for (const ArchiveEntry& entry : entries) {
    names.varint(entry.name.size());
    names.bytes({reinterpret_cast<const std::uint8_t*>(entry.name.data()), entry.name.size()});
    names.varint(entry.length);
  }
  const std::size_t source = source_payload.empty() ? 0 : section_bytes(source_payload.size());
  const std::size_t body = source + section_bytes(tensors.size()) + section_bytes(directory.size()) + section_bytes(kFooterBytes);
  Bytes frame;
  frame.reserve(kMaxPrelude + body);
  ByteWriter out(frame);
  write_prelude(static_cast<std::uint16_t>(kArchive | (checksums ? kChecksums : 0)), body, out);
  if (source > 0) write_section(Section::source, source_payload, out);
  out.u8(static_cast<std::uint8_t>(Section::tensors));
  out.varint(tensors.size());
  const std::size_t before = out.size();
  out.bytes(tensors);
  const std::size_t directory_at = out.size();
  write_section(Section::directory, directory, out);
  out.u8(static_cast<std::uint8_t>(Section::footer));
  out.varint(kFooterBytes);
  out.u64(directory_at);
  const ByteSpan written(frame);
  out.u64(checksums ? hash64(written.first(before), written.subspan(directory_at)) : 0);
  return frame;
}

}  // namespace gradwire::frame
