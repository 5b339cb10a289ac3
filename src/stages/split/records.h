// Raw records: the bits of an element that no model predicts (docs/format.md 3.5).
// In: records as words of the tensor's width, one a coded element.
// Out: byte planes + a bitstream, or, when counted, second symbols + a bitstream; and back.
// Assumes: dst has record_room bytes. Readers check nothing: the caller compares sizes first
// (planes), or the bits consumed afterwards (counted).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/counted.h"

namespace gradwire::split {

/// Bytes that n records of q bits take.
constexpr std::size_t record_bytes(std::size_t n, unsigned q) noexcept {
  return n * (q / 8) + (n * (q % 8) + 7) / 8;
}
/// Room that writers need for n records of at most q bits.
constexpr std::size_t record_room(std::size_t n, unsigned q) noexcept {
  return record_bytes(n, q) + n + 64;
}

template <typename Word>
void pack_records(const Word* records, std::size_t n, unsigned q, std::uint8_t* dst) noexcept;

/// src must be readable 8 bytes past its record_bytes(n, q).
template <typename Word>
void unpack_records(const std::uint8_t* src, std::size_t n, unsigned q, Word* records) noexcept;

/// Writes the count of each record to counts[]; appends the bits to `out`. has_sign: a record's
/// lowest bit is the sign.
template <typename Word>
void pack_counted(const Word* records, std::size_t n, CountShape shape, bool has_sign,
                  std::uint8_t* counts, BitWriter& out) noexcept;

/// False when a count asks for more bits than a record has.
template <typename Word>
bool unpack_counted(SlackBitReader& in, const std::uint8_t* counts, std::size_t n, CountShape shape,
                    bool has_sign, Word* records) noexcept;

}  // namespace gradwire::split
