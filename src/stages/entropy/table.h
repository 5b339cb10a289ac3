// Code tables: what docs/format.md 4.1 puts on the wire, and the choice of the cheapest.
// In: histograms, or the bytes of the `tables` section.
// Out: resolved tables for the sequence coders.
// Assumes: nothing of wire bytes; a table that codes nothing or over-fills its code is refused.
#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "stages/entropy/code_lengths.h"
#include "stages/entropy/gennorm.h"

namespace gradwire::entropy {

enum class Source : std::uint8_t { dynamic = 0, fixed = 1, gennorm = 2 };
enum class CoderId : std::uint8_t { huffman = 0, ans = 1 };

inline constexpr unsigned kMaxTables = 16;
inline constexpr unsigned kMaxPairSymbols = 16;
inline constexpr std::int32_t kMaxBase = 65536;

/// One table. `values` are code lengths (huffman) or frequencies (ans) over `symbols()` symbols;
/// for fixed and gennorm tables they are filled by resolve().
struct Table {
  Source source = Source::dynamic;
  CoderId coder = CoderId::huffman;
  bool pairs = false;
  std::uint16_t alphabet = 0;  ///< symbols of a sequence; set by resolve() and choose_table()
  std::int32_t base = 0;
  std::uint64_t static_id = 0;
  GennormParameters gennorm{};
  Values values{};
};

void write_table(const Table& table, ByteWriter& out);

/// Reads one table; checks forms, ranges and, for dynamic ones, that the code is complete.
Table read_table(ByteReader& in);

/// Makes a table fit for an alphabet: fills the values of fixed and gennorm tables, refuses symbols
/// outside the alphabet and pairs over more than 16 symbols. `where` names the user, for messages.
void resolve(Table& table, unsigned alphabet, const char* where);

/// What a choice may use.
struct Allowed {
  bool dynamic = true;
  bool fixed = true;
  bool gennorm = false;
  bool huffman = true;
  bool ans = false;
  bool pairs = true;  ///< only looked at where a pair histogram is given
  GennormLayout gennorm_layout{};
};

/// Counts of a sequence: `single` over its symbols; `pairs` over joint symbols of neighbours, or
/// empty.
struct Counts {
  std::span<const std::uint32_t> single;  ///< alphabet entries
  std::span<const std::uint32_t> pairs;   ///< 256 entries, or none
};

struct Choice {
  Table table;             ///< resolved; base is the caller's to set
  std::uint64_t bits = 0;  ///< payload bits of the sequence + 8 x wire bytes of the table
};

/// The cheapest allowed table by exact cost (coded bits + table bytes; ans also pays 32 bits a lane
/// and sequence, given the number of sequences `parts` that the counts are cut into).
Choice choose_table(const Counts& counts, const Allowed& allowed, unsigned parts = 1);

/// Payload bits of a sequence with these counts under a resolved table; UINT64_MAX if it cannot
/// code it.
std::uint64_t coded_bits(const Counts& counts, const Table& table);

}  // namespace gradwire::entropy
