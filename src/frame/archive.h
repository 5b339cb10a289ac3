// Archive bodies: source, tensors, directory, footer (docs/format.md 8).
// In: the bytes of an archive frame, or its parts. Out: checked entries, or the frame.
// Assumes: nothing of the bytes.
#pragma once

#include <string>
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
  Source source = Source::none;
  std::uint64_t source_bytes = 0;  ///< of the source's header, decoded
  Span source_coded;               ///< its integer array
  std::vector<ArchiveEntry> entries;
};

/// Parses everything but the tensors; compares the footer's hash if there is one and `verify` is set.
Archive read_archive(ByteSpan frame, bool verify);

/// The frame around tensor bodies that lie one behind the other. `source_payload` is empty for kind none.
Bytes write_archive(ByteSpan source_payload, ByteSpan tensors, const std::vector<ArchiveEntry>& entries, bool checksums);

}  // namespace gradwire::frame
