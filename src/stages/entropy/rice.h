// Golomb-Rice codes of distances: mode 5 of an integer array (docs/format.md 7.1).
// In: integers; or the bytes behind the mode.
// Out: those bytes; or the integers.
// Assumes: the reader knows the count; nothing else of the bytes. Source: Golomb 1966, Rice 1979;
// the best code of this kind for distances between events of one probability.
#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.h"

namespace gradwire::entropy {

struct RiceCode {
  std::int32_t least = 0;
  unsigned low_bits = 0;
  std::uint64_t bits = 0;  ///< of the stream
  /// Of all that is written, mode apart.
  std::size_t bytes() const noexcept;
};

/// The shortest code of at least one value; the values may span less than 2^31.
RiceCode choose_rice(std::span<const std::int32_t> values);
void write_rice(std::span<const std::int32_t> values, const RiceCode& code, ByteWriter& out);
/// Fills `values`; each must lie in low .. high, else `corrupt`.
void read_rice(ByteReader& in, std::span<std::int32_t> values, std::int32_t low, std::int32_t high,
               const char* field);

}  // namespace gradwire::entropy
