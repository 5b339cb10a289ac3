// Ascending indices as the gaps between them (docs/format.md 11.2).
// In: indices, ascending; or the bytes of as many gaps.
// Out: those bytes; or the indices.
// Assumes: nothing of the bytes.
#pragma once

#include <span>
#include <vector>

#include "base/bytes.h"
#include "lossy/select/select.h"

namespace gradwire::lossy {

/// Appends the gaps; `gaps` is memory that keeps its capacity.
void write_gaps(std::span<const std::uint32_t> indices, std::vector<std::int32_t>& gaps,
                ByteWriter& out);

/// Fills `indices`, whose size says how many there are, of n elements; n below 2^31 and at least as
/// large. Throws corrupt | truncated, and names the `field`.
void read_gaps(ByteReader& in, std::uint64_t n, const char* field, std::vector<std::int32_t>& gaps,
               std::span<std::uint32_t> indices);

}  // namespace gradwire::lossy
