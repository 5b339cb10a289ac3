// Frames and their sections (docs/format.md 1): where things stand, not what they mean.
// In: the bytes of a frame.
// Out: its prelude and the spans of its sections, or those bytes written.
// Assumes: nothing of the bytes; all lengths are checked here.
#pragma once

#include <array>
#include <optional>

#include "base/bytes.h"

namespace gradwire::frame {

inline constexpr std::uint8_t kMajor = 0;
inline constexpr std::uint8_t kMinor = 1;
inline constexpr std::size_t kMaxPrelude = 8 + 9;

enum Flag : std::uint16_t { kChecksums = 1, kArchive = 2, kStreamed = 4, kLossy = 8 };

enum class Section : std::uint8_t {
  tensor = 1,
  tables = 2,
  dead = 3,
  scales = 4,
  signs = 5,
  taps = 6,
  index = 7,
  chunks = 8,
  trailer = 9,
  selected = 10,
  bucket_scales = 11,
  values = 12,
  check = 13,
  source = 32,
  shared_tables = 33,
  tensors = 34,
  directory = 35,
  footer = 36,
};
inline constexpr std::size_t kSectionIds = 37;

const char* section_name(Section id) noexcept;

struct Prelude {
  std::uint16_t flags = 0;
  std::size_t header_bytes = 0;  ///< before the body
  std::uint64_t body_bytes = 0;
  bool checksums() const noexcept { return (flags & kChecksums) != 0; }
  bool archive() const noexcept { return (flags & kArchive) != 0; }
  bool lossy() const noexcept { return (flags & kLossy) != 0; }
};

/// Reads what stands before the body. nullopt when the bytes are a proper beginning but too few.
std::optional<Prelude> peek_prelude(ByteSpan frame);
/// Throws for bytes behind a frame.
[[noreturn]] void refuse_surplus(std::uint64_t bytes);
/// Reads the prelude and demands that the frame has exactly its body.
Prelude read_prelude(ByteSpan frame);
void write_prelude(std::uint16_t flags, std::uint64_t body_bytes, ByteWriter& out);

/// A section's payload and where it stands in the frame; an absent one is empty.
struct Span {
  ByteSpan bytes;
  std::size_t offset = 0;     ///< of the payload
  std::size_t id_offset = 0;  ///< of the id byte
  bool present = false;
  ByteReader reader() const noexcept { return ByteReader(bytes, offset); }
};

class Sections {
 public:
  Sections() = default;
  /// Splits a body that starts `origin` bytes into the frame; only `allowed` ids (and optional
  /// ones) pass.
  Sections(ByteSpan body, std::size_t origin, std::initializer_list<Section> allowed) {
    read(body, origin, allowed);
  }
  /// The same of the sections that follow in the body.
  void read(ByteSpan bytes, std::size_t origin, std::initializer_list<Section> allowed);
  /// Notes a section whose payload is not at hand.
  void skip(Section id, std::size_t id_offset, std::size_t offset) noexcept;
  const Span& operator[](Section id) const noexcept { return spans_[static_cast<std::size_t>(id)]; }
  /// The section, which must be there.
  const Span& required(Section id) const;

 private:
  std::array<Span, kSectionIds> spans_{};
  int previous_ = -1;  ///< the id read last
};

/// Where the section `chunks` stands in a frame, and the bytes of its payload.
struct ChunksPlace {
  std::size_t id_offset = 0;
  std::size_t offset = 0;
  std::uint64_t length = 0;
};

/// Finds `chunks` in the beginning of a tensor's frame. nullopt when bytes before its payload are
/// missing, and when it cannot come any more.
std::optional<ChunksPlace> find_chunks(ByteSpan start, const Prelude& prelude);

/// Appends a section with its payload.
void write_section(Section id, ByteSpan payload, ByteWriter& out);
std::size_t section_bytes(std::size_t payload) noexcept;

}  // namespace gradwire::frame
