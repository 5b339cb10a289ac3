// Archive bodies: source, tensors, directory, footer (docs/format.md 8).
// In: the bytes of an archive frame, or its parts.
// Out: checked entries, or the frame.
// Assumes: nothing of the bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frame/sections.h"

namespace gradwire::frame {

enum class Source : std::uint8_t { none = 0, safetensors = 1, npy = 2, raw = 3 };

inline constexpr std::uint64_t kMaxSourceBytes = std::uint64_t{1} << 30;
inline constexpr std::size_t kMaxName = 65535;

struct ArchiveEntry {
  std::string name;
  std::uint64_t offset = 0;  ///< of the body, in the frame
  std::uint64_t length = 0;
};

struct Archive {
  bool checksums = false;
  bool lossy = false;  ///< tensor bodies may be lossy ones
  Source source = Source::none;
  bool derived = false;            ///< the header is rendered from the directory
  std::uint64_t source_bytes = 0;  ///< of the header, or of its prefix, decoded
  Span source_coded;               ///< what follows: an integer array, with derived also `spaces`
  std::uint64_t directory_bytes = 0;
  Span directory_coded;  ///< the integer array of the directory
  std::uint64_t directory_count = 0;
  Span tensors;
  std::vector<ArchiveEntry> entries;  ///< filled by read_directory
};

/// Parses everything but the tensors and the directory's entries, whose bytes the caller decodes;
/// compares the footer's hash if there is one and `verify` is set.
Archive read_archive(ByteSpan frame, bool verify);
/// Fills the entries from the decoded bytes of the directory.
void read_directory(ByteSpan decoded, Archive& archive);

/// What names must be: strict UTF-8 (shortest forms, no surrogates).
bool is_utf8(std::string_view text) noexcept;
/// Bytes of the directory before they are coded.
Bytes directory_bytes(const std::vector<ArchiveEntry>& entries);
/// Makes a frame of tensor bodies that lie one behind the other in `frame`, behind `room` bytes of
/// any value; they move unless this is what the frame's beginning takes, which is returned.
/// `source` is empty for kind none; `directory` is the coded section; `flags` are kChecksums and
/// kLossy or not.
std::size_t write_archive(ByteSpan source, ByteSpan directory, std::uint16_t flags,
                          std::size_t room, Bytes& frame);

}  // namespace gradwire::frame
