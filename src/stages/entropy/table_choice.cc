#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "stages/entropy/ans.h"
#include "stages/entropy/fixed_log2.h"
#include "stages/entropy/gennorm.h"
#include "stages/entropy/static_tables.h"
#include "stages/entropy/table.h"

namespace gradwire::entropy {
namespace {

std::uint64_t huffman_bits(std::span<const std::uint32_t> counts, const Values& lengths) {
  std::uint64_t bits = 0;
  for (std::size_t s = 0; s < counts.size(); ++s) {
    if (counts[s] > 0 && lengths[s] == 0) return UINT64_MAX;
    bits += std::uint64_t{counts[s]} * lengths[s];
  }
  return bits;
}

/// Bits from units of 2^-kLog2Bits, rounded up.
std::uint64_t whole_bits(std::uint64_t cost) { return (cost + (1u << kLog2Bits) - 1) >> kLog2Bits; }

std::uint64_t ans_bits(std::span<const std::uint32_t> counts, const Values& frequencies) {
  constexpr std::uint32_t kWhole = kProbabilityBits << kLog2Bits;
  std::uint64_t cost = 0;
  for (std::size_t s = 0; s < counts.size(); ++s) {
    if (counts[s] == 0) continue;
    if (frequencies[s] == 0) return UINT64_MAX;
    cost += counts[s] * std::uint64_t{kWhole - fixed_log2(frequencies[s])};
  }
  return whole_bits(cost);
}

std::uint64_t state_bits(std::span<const std::uint32_t> counts) {
  std::uint64_t n = 0;
  for (const std::uint32_t count : counts) n += count;
  return 32 * std::min<std::uint64_t>(n, kAnsLanes);
}

std::uint64_t table_bits(const Table& table) {
  Bytes bytes;
  ByteWriter out(bytes);
  write_table(table, out);
  return 8 * bytes.size();
}

/// Compares candidates and keeps the cheapest; of equals the first.
class Contest {
 public:
  Contest(const Counts& counts, unsigned parts) : counts_(counts), parts_(parts) {}

  void offer(const Table& table) { offer(table, coded_bits(counts_, table)); }
  /// The same for a table whose payload bits are known.
  void offer(const Table& table, std::uint64_t bits) {
    if (bits >= best_.bits) return;
    if (table.coder == CoderId::ans && parts_ > 1) {
      bits += (parts_ - 1) * state_bits(table.pairs ? counts_.pairs : counts_.single);
    }
    bits += table_bits(table);
    if (bits < best_.bits) best_ = {table, bits};
  }
  const Counts& counts() const { return counts_; }
  const Choice& best() const { return best_; }

 private:
  const Counts& counts_;
  unsigned parts_;
  Choice best_{{}, UINT64_MAX};
};

std::vector<std::uint64_t> weights_of(std::span<const std::uint32_t> counts) {
  return {counts.begin(), counts.end()};
}

void offer_dynamic(Contest& contest, std::span<const std::uint32_t> counts, Table table) {
  constexpr std::uint64_t kManySymbols = 4096;  // for fewer the best frequencies save a byte or two
  const auto weights = weights_of(counts);
  table.source = Source::dynamic;
  if (table.coder == CoderId::huffman) {
    table.values = quick_code_lengths(weights);
  } else {
    const auto n = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
    table.values = n < kManySymbols ? normalised_frequencies(weights) : best_frequencies(weights);
  }
  contest.offer(table);
}

/// Payload bits under a prebuilt table, of which every symbol has a code; `used` are the symbols
/// that occur, so that a small tensor's pairs are few.
std::uint64_t fixed_bits(std::span<const std::uint32_t> counts, std::span<const std::uint16_t> used,
                         const StaticCode& code, CoderId coder) {
  std::uint64_t cost = 0;
  if (coder == CoderId::huffman) {
    for (const std::uint16_t s : used) cost += std::uint64_t{counts[s]} * code.lengths[s];
    return cost;
  }
  for (const std::uint16_t s : used) cost += std::uint64_t{counts[s]} * code.ans_cost[s];
  return whole_bits(cost) + state_bits(counts);
}

void offer_fixed(Contest& contest, std::size_t alphabet, Table table) {
  table.source = Source::fixed;
  const auto counts = table.pairs ? contest.counts().pairs : contest.counts().single;
  std::array<std::uint16_t, kMaxSymbols> symbols;
  std::size_t n = 0;
  for (std::size_t s = 0; s < counts.size(); ++s) {
    symbols[n] = static_cast<std::uint16_t>(s);
    n += counts[s] > 0;
  }
  const std::span<const std::uint16_t> used(symbols.data(), n);
  for (const StaticTable& candidate : static_tables()) {
    if (candidate.alphabet != alphabet || candidate.pairs != table.pairs) continue;
    const StaticCode& code = static_code(candidate);
    const std::uint64_t bits = fixed_bits(counts, used, code, table.coder);
    if (bits >= contest.best().bits) continue;
    table.static_id = candidate.id;
    table.values = table.coder == CoderId::huffman ? code.lengths : candidate.frequencies;
    contest.offer(table, bits);
  }
}

void offer_gennorm(Contest& contest, const GennormParameters& fit, Table table) {
  table.source = Source::gennorm;
  table.gennorm = fit;
  resolve(table, table.alphabet, "gennorm table");
  contest.offer(table);
}

/// Fits are made for ideal codes. Whole bits may prefer a neighbour, and its neighbour.
void polish_gennorm(Contest& contest) {
  constexpr std::uint64_t kWorthwhileBits = 1u << 15;  // a neighbour costs some microseconds
  constexpr int kMaxRounds = 8;
  for (int round = 0; round < kMaxRounds; ++round) {
    const Choice start = contest.best();
    if (start.table.source != Source::gennorm || start.table.coder != CoderId::huffman) return;
    if (start.bits < kWorthwhileBits) return;
    for (const GennormParameters& near : gennorm_neighbours(start.table.gennorm)) {
      offer_gennorm(contest, near, start.table);
    }
    if (contest.best().bits == start.bits) return;
  }
}

}  // namespace

std::uint64_t coded_bits(const Counts& counts, const Table& table) {
  const auto used = table.pairs ? counts.pairs : counts.single;
  if (table.pairs && used.empty()) return UINT64_MAX;
  if (table.coder == CoderId::huffman) return huffman_bits(used, table.values);
  const std::uint64_t bits = ans_bits(used, table.values);
  return bits == UINT64_MAX ? bits : bits + state_bits(used);
}

Choice choose_table(const Counts& counts, const Allowed& allowed, unsigned parts) {
  Contest contest(counts, parts);
  const auto fit =
      allowed.gennorm ? fit_gennorm(counts.single, allowed.gennorm_layout) : std::nullopt;
  const auto more = fit ? fit_gennorm_more(counts.single, *fit) : std::nullopt;
  for (const CoderId coder : {CoderId::huffman, CoderId::ans}) {
    if (!(coder == CoderId::huffman ? allowed.huffman : allowed.ans)) continue;
    for (const bool pairs : {false, true}) {
      if (pairs && (!allowed.pairs || counts.pairs.empty())) continue;
      Table table;
      table.coder = coder;
      table.pairs = pairs;
      table.alphabet = static_cast<std::uint16_t>(counts.single.size());
      const auto used = pairs ? counts.pairs : counts.single;
      if (allowed.dynamic) offer_dynamic(contest, used, table);
      if (allowed.fixed) offer_fixed(contest, counts.single.size(), table);
      if (fit && !pairs) offer_gennorm(contest, *fit, table);
      if (more && !pairs) offer_gennorm(contest, *more, table);
    }
  }
  polish_gennorm(contest);
  return contest.best();
}

}  // namespace gradwire::entropy
