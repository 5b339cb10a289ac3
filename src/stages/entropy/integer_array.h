// Small side information: integer arrays and flag maps (docs/format.md 7).
// In: scales, run lengths, bitmaps.
// Out: their cheapest encoding, appended.
// Assumes: the reader knows the count; nothing else of the bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"

namespace gradwire::entropy {

/// Appends the shortest of modes 0, 1 and 2. Values must span less than 2^32 (so must the deltas).
void write_integers(std::span<const std::int32_t> values, ByteWriter& out);
/// Appends the shortest of modes 0, 1 and 5: for distances, not negative, which need no deltas.
void write_distances(std::span<const std::int32_t> values, ByteWriter& out);
/// Fills `values`; each must lie in low .. high, else `corrupt`.
void read_integers(ByteReader& in, std::span<std::int32_t> values, std::int32_t low,
                   std::int32_t high, const char* field);

/// Appends the shortest of modes 0, 3 and 4.
void write_bytes(std::span<const std::uint8_t> values, ByteWriter& out);
void read_bytes(ByteReader& in, std::span<std::uint8_t> values, const char* field);

/// Flags are bytes 0 or 1. Appends the shorter of bitmap and runs (which are not tried where they
/// are many).
void write_flags(std::span<const std::uint8_t> flags, ByteWriter& out);
void read_flags(ByteReader& in, std::span<std::uint8_t> flags, const char* field);

}  // namespace gradwire::entropy
