// The tables that are shipped with the library (docs/format.md 4.5): a frame names one by its id.
// In: static_family.inc, written by `gradwire train-tables`.
// Out: code lengths and frequencies.
// Assumes: ids are never reused, and a table never changes once it has been released.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "stages/entropy/code_lengths.h"

namespace gradwire::entropy {

/// One row of the family, as it stands in static_family.inc.
struct StaticTable {
  std::uint64_t id;   ///< at least 1
  unsigned alphabet;  ///< symbols of a sequence; a table of pairs is over 256 joint symbols
  bool pairs;
  Values frequencies;  ///< sum 4096
};

/// What the coders need of a row.
struct StaticCode {
  Values lengths;                                   ///< code_lengths of the frequencies
  std::array<std::uint32_t, kMaxSymbols> ans_cost;  ///< bits << kLog2Bits; 0 for absent symbols
};

/// All tables in ascending id.
std::span<const StaticTable> static_tables() noexcept;

/// Null when this build has no such table.
const StaticTable* find_static_table(std::uint64_t id) noexcept;

/// The code of a table of this family, derived when it is first asked for. Thread-safe.
const StaticCode& static_code(const StaticTable& table);

/// The bytes that the family's hash is over: for each table u64 id, u16 alphabet, u8 pairs and its
/// frequencies, u16 each: `alphabet` of them, with pairs 256.
Bytes canonical_bytes(std::span<const StaticTable> tables);

}  // namespace gradwire::entropy
