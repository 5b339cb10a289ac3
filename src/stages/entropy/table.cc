#include "stages/entropy/table.h"

#include <algorithm>
#include <numeric>

#include "base/bits.h"
#include "base/fail.h"
#include "stages/entropy/huffman.h"
#include "stages/entropy/static_tables.h"

namespace gradwire::entropy {
namespace {

constexpr unsigned kFrequencySum = 1u << kProbabilityBits;

unsigned form_of(const Table& table) {
  return static_cast<unsigned>(table.source) | static_cast<unsigned>(table.coder) << 2 |
         static_cast<unsigned>(table.pairs) << 3;
}

// --- dynamic tables ------------------------------------------------------------

struct Range {
  unsigned first;
  unsigned last;
  std::size_t count() const { return last - first + 1; }
};

/// First and last symbol with a value; a resolved table always has one.
Range used_range(const Values& values) {
  Range range{0, kMaxSymbols - 1};
  while (range.first < range.last && values[range.first] == 0) ++range.first;
  while (range.last > range.first && values[range.last] == 0) --range.last;
  return range;
}

void write_lengths(const Values& lengths, Range range, ByteWriter& out) {
  for (unsigned s = range.first; s <= range.last; s += 2) {
    const unsigned next = s < range.last ? lengths[s + 1] : 0u;
    out.u8(static_cast<std::uint8_t>(lengths[s] | next << 4));
  }
}

void write_frequencies(const Values& frequencies, Range range, ByteWriter& out) {
  if (range.count() == 1) return;
  std::array<std::uint8_t, kMaxSymbols * 2> buffer;
  BitWriter bits(buffer.data());
  for (unsigned s = range.first; s <= range.last; ++s) bits.put(frequencies[s], kProbabilityBits);
  out.bytes(ByteSpan(buffer.data(), bits.finish()));
}

void read_lengths(ByteReader& in, Range range, Values& lengths) {
  const std::size_t start = in.offset();
  const ByteSpan nibbles = in.bytes("tables, code lengths", (range.count() + 1) / 2);
  for (std::size_t i = 0; i < 2 * nibbles.size(); ++i) {
    const unsigned length = nibbles[i / 2] >> (4 * (i & 1)) & 15;
    if (length > (i < range.count() ? kMaxCodeLength : 0)) {
      fail(ErrorKind::corrupt,
           "tables, code lengths at byte {}: length {} found, at most {} allowed", start + i / 2,
           length, i < range.count() ? kMaxCodeLength : 0);
    }
    if (i < range.count()) lengths[range.first + i] = static_cast<std::uint16_t>(length);
  }
  const std::uint32_t sum = kraft_sum(lengths);
  if (!is_complete_code(lengths)) {
    fail(ErrorKind::corrupt, "tables, code lengths at byte {}: code is {} (Kraft sum {}/{})", start,
         sum > 1u << kMaxCodeLength ? "over-full" : "incomplete", sum, 1u << kMaxCodeLength);
  }
}

void read_frequencies(ByteReader& in, Range range, Values& frequencies) {
  if (range.count() == 1) {
    frequencies[range.first] = kFrequencySum;
    return;
  }
  const std::size_t start = in.offset();
  const std::size_t bytes = (range.count() * kProbabilityBits + 7) / 8;
  BitReader bits(in.bytes("tables, frequencies", bytes));
  for (unsigned s = range.first; s <= range.last; ++s) {
    frequencies[s] = static_cast<std::uint16_t>(bits.get(kProbabilityBits));
  }
  const unsigned sum = std::accumulate(frequencies.begin(), frequencies.end(), 0u);
  if (sum != kFrequencySum) {
    fail(ErrorKind::corrupt, "tables, frequencies at byte {}: their sum is {}, must be {}", start,
         sum, kFrequencySum);
  }
  if (!bits.at_exact_end()) {
    fail(ErrorKind::corrupt, "tables, frequencies at byte {}: unused bits are not zero", start);
  }
}

void read_dynamic(ByteReader& in, Table& table) {
  const std::size_t start = in.offset();
  const Range range{in.u8("tables, first symbol"), in.u8("tables, last symbol")};
  if (range.first > range.last) {
    fail(ErrorKind::corrupt, "tables, first symbol at byte {}: {} found, last symbol is {}", start,
         range.first, range.last);
  }
  if (table.coder == CoderId::huffman) {
    read_lengths(in, range, table.values);
  } else {
    read_frequencies(in, range, table.values);
  }
}

// --- gennorm tables --------------------------------------------------------------

void write_gennorm(const GennormParameters& parameters, ByteWriter& out) {
  out.u8(parameters.shape);
  out.u8(parameters.scale);
  const unsigned bytes = gennorm_more_bytes(parameters.shape);
  if (bytes == 1) out.u8(static_cast<std::uint8_t>(parameters.more));
  if (bytes == 2) out.u16(parameters.more);
}

/// Refuses what is no table for any alphabet.
GennormParameters read_gennorm(ByteReader& in, bool pairs) {
  const std::size_t start = in.offset();
  GennormParameters parameters;
  parameters.shape = in.u8("tables, gennorm shape");
  parameters.scale = in.u8("tables, gennorm scale");
  const unsigned bytes = gennorm_more_bytes(parameters.shape);
  if (bytes == 1) parameters.more = in.u8("tables, gennorm mean");
  if (bytes == 2) parameters.more = in.u16("tables, gennorm other");
  if ((parameters.shape >> 5 & 3) == 3 || pairs) {
    fail(ErrorKind::corrupt,
         "tables, gennorm shape at byte {}: {:#04x}{} found, step_log2 must be at most 2, without "
         "pairs",
         start, parameters.shape, pairs ? " with pairs" : "");
  }
  return parameters;
}

// --- form and base ---------------------------------------------------------------

Table read_form(ByteReader& in) {
  const std::size_t start = in.offset();
  const unsigned form = in.u8("tables, form");
  if (form >> 4 != 0) {
    fail(ErrorKind::corrupt, "tables, form at byte {}: {:#04x} found, bits 4 to 7 must be zero",
         start, form);
  }
  if ((form & 3) == 3) {
    fail(ErrorKind::unsupported,
         "tables, form at byte {}: table source 3 is not known to this build", start);
  }
  Table table;
  table.source = static_cast<Source>(form & 3);
  table.coder = static_cast<CoderId>(form >> 2 & 1);
  table.pairs = (form >> 3 & 1) != 0;
  return table;
}

std::int32_t read_base(ByteReader& in) {
  const std::size_t start = in.offset();
  const std::int64_t base = unzigzag(in.varint("tables, base"));
  if (base < -kMaxBase || base > kMaxBase) {
    fail(ErrorKind::corrupt, "tables, base at byte {}: {} found, {} to {} allowed", start, base,
         -kMaxBase, kMaxBase);
  }
  return static_cast<std::int32_t>(base);
}

// --- resolving -------------------------------------------------------------------

void resolve_fixed(Table& table, unsigned alphabet, const char* where) {
  const StaticTable* found = find_static_table(table.static_id);
  if (found == nullptr) {
    fail(ErrorKind::unsupported, "{}: static table {} is not known to this build", where,
         table.static_id);
  }
  if (found->alphabet != alphabet || found->pairs != table.pairs) {
    fail(ErrorKind::corrupt, "{}: static table {} is for {} symbols{}, wanted are {} symbols{}",
         where, found->id, found->alphabet, found->pairs ? " in pairs" : "", alphabet,
         table.pairs ? " in pairs" : "");
  }
  table.values = table.coder == CoderId::huffman ? static_code(*found).lengths : found->frequencies;
}

void resolve_gennorm(Table& table, unsigned alphabet, const char* where) {
  std::array<std::uint64_t, kMaxSymbols> buffer;
  const auto weights = std::span(buffer).first(std::min(alphabet, kMaxSymbols));
  if (table.pairs || !gennorm_weights(table.gennorm, weights)) {
    fail(ErrorKind::corrupt,
         "{}: gennorm table of shape {:#04x} and scale {:#04x} does not exist for "
         "{} symbols{}",
         where, table.gennorm.shape, table.gennorm.scale, alphabet, table.pairs ? " in pairs" : "");
  }
  table.values =
      table.coder == CoderId::huffman ? code_lengths(weights) : normalised_frequencies(weights);
}

bool is_symbol(unsigned value, unsigned alphabet, bool pairs) {
  return pairs ? (value & 15) < alphabet && value >> 4 < alphabet : value < alphabet;
}

void check_alphabet(const Table& table, unsigned alphabet, const char* where) {
  for (unsigned s = 0; s < kMaxSymbols; ++s) {
    if (table.values[s] != 0 && !is_symbol(s, alphabet, table.pairs)) {
      fail(ErrorKind::corrupt, "{}: table has a code for symbol {}, the alphabet has {} symbols{}",
           where, s, alphabet, table.pairs ? " in pairs" : "");
    }
  }
}

}  // namespace

void write_table(const Table& table, ByteWriter& out) {
  out.u8(static_cast<std::uint8_t>(form_of(table)));
  out.varint(zigzag(table.base));
  switch (table.source) {
    case Source::dynamic: {
      const Range range = used_range(table.values);
      out.u8(static_cast<std::uint8_t>(range.first));
      out.u8(static_cast<std::uint8_t>(range.last));
      if (table.coder == CoderId::huffman) {
        write_lengths(table.values, range, out);
      } else {
        write_frequencies(table.values, range, out);
      }
      break;
    }
    case Source::fixed:
      out.varint(table.static_id);
      break;
    case Source::gennorm:
      write_gennorm(table.gennorm, out);
      break;
  }
}

Table read_table(ByteReader& in) {
  Table table = read_form(in);
  table.base = read_base(in);
  switch (table.source) {
    case Source::dynamic:
      read_dynamic(in, table);
      break;
    case Source::fixed:
      table.static_id = in.varint("tables, static id");
      break;
    case Source::gennorm:
      table.gennorm = read_gennorm(in, table.pairs);
      break;
  }
  return table;
}

void resolve(Table& table, unsigned alphabet, const char* where) {
  if (table.pairs && alphabet > kMaxPairSymbols) {
    fail(ErrorKind::corrupt, "{}: pairs over an alphabet of {} symbols, at most {} allowed", where,
         alphabet, kMaxPairSymbols);
  }
  table.alphabet = static_cast<std::uint16_t>(alphabet);
  switch (table.source) {
    case Source::dynamic:
      break;
    case Source::fixed:
      resolve_fixed(table, alphabet, where);
      break;
    case Source::gennorm:
      resolve_gennorm(table, alphabet, where);
      break;
  }
  check_alphabet(table, alphabet, where);
}

}  // namespace gradwire::entropy
