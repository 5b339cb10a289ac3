// The tables that are shipped with the library (docs/format.md 4.5): a frame names one by its id.
// In: static_family.inc, written by `gradwire train-tables`. Out: code lengths and frequencies.
// Assumes: ids are never reused, and a table never changes once it has been released.
#pragma once

#include <cstdint>
#include <span>

#include "stages/entropy/code_lengths.h"

namespace gradwire::entropy {

struct StaticTable {
  std::uint64_t id;   ///< at least 1
  unsigned alphabet;  ///< symbols of a sequence; a table of pairs is over 256 joint symbols
  bool pairs;
  Values lengths;      ///< code_lengths of the frequencies
  Values frequencies;  ///< sum 4096
};

/// All tables in ascending id. Thread-safe; the first call derives the lengths.
std::span<const StaticTable> static_tables();

/// Null when this build has no such table.
const StaticTable* find_static_table(std::uint64_t id);

}  // namespace gradwire::entropy
