#include "frame/archive.h"

#include <algorithm>
#include <unordered_set>

#include "base/fail.h"
#include "base/hash.h"

namespace gradwire::frame {
namespace {

constexpr std::size_t kFooterBytes = 16;

/// Length of the UTF-8 sequence that starts at `at`, 0 when it is not well formed.
std::size_t utf8_length(std::string_view text, std::size_t at) noexcept {
  const auto byte = [&](std::size_t i) {
    return static_cast<unsigned>(static_cast<unsigned char>(text[i]));
  };
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

void read_source(const Span& span, Archive& archive) {
  if (!span.present) return;
  ByteReader in = span.reader();
  const unsigned kind = in.u8("source kind");
  if (kind < 1 || kind > 3)
    fail(ErrorKind::unsupported, "source kind at byte {}: id {} is not known", span.offset, kind);
  archive.source = static_cast<Source>(kind);
  const unsigned form = in.u8("source form");
  archive.derived = form == 1;
  if (form > 1 || (archive.derived && archive.source != Source::safetensors)) {
    fail(ErrorKind::corrupt, "source form at byte {}: {} found for source kind {}", span.offset + 1,
         form, kind);
  }
  archive.source_bytes = in.count("source raw_bytes", kMaxSourceBytes - 1);
  archive.source_coded = {in.rest(), in.offset(), span.id_offset, true};
}

void read_directory_head(const Span& span, Archive& archive) {
  ByteReader in = span.reader();
  archive.directory_count = in.varint("directory count");
  archive.directory_bytes = in.varint("directory raw_bytes");
  archive.directory_coded = {in.rest(), in.offset(), span.id_offset, true};
  const std::uint64_t most = 8 * std::uint64_t{in.left()};
  if (archive.directory_bytes > most || archive.directory_count > archive.directory_bytes / 3) {
    fail(ErrorKind::corrupt,
         "directory at byte {}: {} entries in {} bytes found, {} coded bytes allow {} bytes",
         span.offset, archive.directory_count, archive.directory_bytes, in.left(), most);
  }
}

std::size_t shared_prefix(const std::string& a, const std::string& b) noexcept {
  const std::size_t most = std::min(a.size(), b.size());
  std::size_t n = 0;
  while (n < most && a[n] == b[n]) ++n;
  return n;
}

void check_footer(ByteSpan frame, const Sections& sections, const Archive& archive, bool verify) {
  const Span& footer = sections.required(Section::footer);
  if (footer.bytes.size() != kFooterBytes || footer.offset + kFooterBytes != frame.size()) {
    fail(ErrorKind::corrupt, "footer at byte {}: must be the last 16 bytes", footer.offset);
  }
  const auto directory = load<std::uint64_t>(footer.bytes.data());
  if (directory != sections[Section::directory].id_offset) {
    fail(ErrorKind::corrupt, "footer at byte {}: directory at {} found, it is at {}", footer.offset,
         directory, sections[Section::directory].id_offset);
  }
  const auto expected = load<std::uint64_t>(footer.bytes.data() + 8);
  if (!archive.checksums) {
    if (expected != 0)
      fail(ErrorKind::corrupt, "footer at byte {}: hash without checksums must be 0",
           footer.offset + 8);
    return;
  }
  if (!verify) return;
  const Span& tensors = sections[Section::tensors];
  const std::size_t behind = tensors.offset + tensors.bytes.size();
  const std::uint64_t found =
      hash64(frame.first(tensors.offset), frame.subspan(behind, footer.offset + 8 - behind));
  if (found != expected) {
    fail(ErrorKind::corrupt, "footer hash at byte {}: {:016x} expected, the frame gives {:016x}",
         footer.offset + 8, expected, found);
  }
}

}  // namespace

bool is_utf8(std::string_view text) noexcept {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

Archive read_archive(ByteSpan frame, bool verify) {
  const Prelude prelude = read_prelude(frame);
  if (!prelude.archive()) {
    fail(ErrorKind::invalid_argument,
         "flags at byte 6: this frame holds a single tensor, not an archive");
  }
  const Sections sections(frame.subspan(prelude.header_bytes), prelude.header_bytes,
                          {Section::source, Section::tensors, Section::directory, Section::footer});
  Archive archive;
  archive.checksums = prelude.checksums();
  archive.lossy = prelude.lossy();
  archive.tensors = sections.required(Section::tensors);
  const Span& directory = sections.required(Section::directory);
  check_footer(frame, sections, archive, verify);
  read_source(sections[Section::source], archive);
  read_directory_head(directory, archive);
  return archive;
}

void read_directory(ByteSpan decoded, Archive& archive) {
  ByteReader in(decoded);
  std::unordered_set<std::string_view> names;
  std::uint64_t offset = 0;
  std::uint64_t names_bytes = 0;
  // Shared beginnings let a few bytes ask for a long name; together they must stay in proportion.
  const std::uint64_t most_names = 64 * std::uint64_t{decoded.size()} + kMaxName;
  archive.entries.reserve(static_cast<std::size_t>(archive.directory_count));
  std::string previous;
  for (std::uint64_t k = 0; k < archive.directory_count; ++k) {
    const auto shared =
        static_cast<std::size_t>(in.count("directory shared bytes", previous.size()));
    const ByteSpan rest =
        in.bytes("name", static_cast<std::size_t>(in.count("name length", kMaxName - shared)));
    previous.resize(shared);
    previous.append(rest.begin(), rest.end());
    names_bytes += previous.size();
    if (names_bytes > most_names) {
      fail(ErrorKind::corrupt, "directory, tensor {}: the names have more than {} bytes together",
           k, most_names);
    }
    if (!is_utf8(previous))
      fail(ErrorKind::corrupt, "directory, tensor {}: its name is not UTF-8", k);
    ArchiveEntry entry{previous, archive.tensors.offset + offset, in.varint("body length")};
    const std::uint64_t left = archive.tensors.bytes.size() - offset;
    if (entry.length > left) {
      fail(ErrorKind::corrupt,
           "directory, tensor '{}': body length {} found, {} bytes of tensors are left", previous,
           entry.length, left);
    }
    offset += entry.length;
    archive.entries.push_back(std::move(entry));
    if (!names.insert(archive.entries.back().name).second) {
      fail(ErrorKind::corrupt, "directory: name '{}' stands twice", previous);
    }
  }
  in.expect_end("directory");
  if (offset != archive.tensors.bytes.size()) {
    fail(ErrorKind::corrupt, "directory: body lengths sum to {}, the section tensors has {} bytes",
         offset, archive.tensors.bytes.size());
  }
}

Bytes directory_bytes(const std::vector<ArchiveEntry>& entries) {
  Bytes bytes;
  ByteWriter out(bytes);
  const std::string none;
  const std::string* previous = &none;
  for (const ArchiveEntry& entry : entries) {
    const std::size_t shared = shared_prefix(*previous, entry.name);
    const std::size_t rest = entry.name.size() - shared;
    out.varint(shared);
    out.varint(rest);
    out.bytes(bytes_of(entry.name).subspan(shared));
    out.varint(entry.length);
    previous = &entry.name;
  }
  return bytes;
}

std::size_t write_archive(ByteSpan source, ByteSpan directory, std::uint16_t flags,
                          std::size_t room, Bytes& frame) {
  const std::size_t tensors = frame.size() - room;
  const std::size_t body = (source.empty() ? 0 : section_bytes(source.size())) +
                           section_bytes(tensors) + section_bytes(directory.size()) +
                           section_bytes(kFooterBytes);
  Bytes front;
  ByteWriter before(front);
  write_prelude(static_cast<std::uint16_t>(kArchive | flags), body, before);
  if (!source.empty()) write_section(Section::source, source, before);
  before.u8(static_cast<std::uint8_t>(Section::tensors));
  before.varint(tensors);
  if (front.size() <= room) {
    frame.erase(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(room - front.size()));
  } else {
    frame.insert(frame.begin(), front.size() - room, std::uint8_t{0});
  }
  std::copy(front.begin(), front.end(), frame.begin());
  ByteWriter out(frame);
  const std::size_t directory_at = out.size();
  write_section(Section::directory, directory, out);
  out.u8(static_cast<std::uint8_t>(Section::footer));
  out.varint(kFooterBytes);
  out.u64(directory_at);
  const ByteSpan written(frame);
  out.u64((flags & kChecksums) != 0
              ? hash64(written.first(front.size()), written.subspan(directory_at))
              : 0);
  return front.size();
}

}  // namespace gradwire::frame
