#include "stages/entropy/static_tables.h"

#include <algorithm>
#include <iterator>
#include <mutex>

#include "stages/entropy/fixed_log2.h"

namespace gradwire::entropy {
namespace {

constexpr StaticTable kFamily[] = {
    {0, 0, false, {}},  // no table: an array needs an entry when the family is empty
#include "stages/entropy/static_family.inc"
};

struct LazyCode {
  std::once_flag once;
  StaticCode code;
};

void derive(const StaticTable& table, StaticCode& code) {
  std::array<std::uint64_t, kMaxSymbols> weights;
  std::copy(table.frequencies.begin(), table.frequencies.end(), weights.begin());
  code.lengths = code_lengths(weights);
  constexpr std::uint32_t kWhole = kProbabilityBits << kLog2Bits;
  for (unsigned s = 0; s < kMaxSymbols; ++s) {
    const unsigned frequency = table.frequencies[s];
    code.ans_cost[s] = frequency == 0 ? 0 : kWhole - fixed_log2(frequency);
  }
}

}  // namespace

std::span<const StaticTable> static_tables() noexcept { return std::span(kFamily).subspan(1); }

const StaticTable* find_static_table(std::uint64_t id) noexcept {
  const auto tables = static_tables();
  const auto found =
      std::lower_bound(tables.begin(), tables.end(), id,
                       [](const StaticTable& t, std::uint64_t v) { return t.id < v; });
  return found != tables.end() && found->id == id ? &*found : nullptr;
}

const StaticCode& static_code(const StaticTable& table) {
  static LazyCode codes[std::size(kFamily)];
  LazyCode& lazy = codes[&table - kFamily];
  std::call_once(lazy.once, [&] { derive(table, lazy.code); });
  return lazy.code;
}

Bytes canonical_bytes(std::span<const StaticTable> tables) {
  Bytes bytes;
  ByteWriter out(bytes);
  for (const StaticTable& table : tables) {
    out.u64(table.id);
    out.u16(static_cast<std::uint16_t>(table.alphabet));
    out.u8(table.pairs ? 1 : 0);
    const unsigned symbols = table.pairs ? kMaxSymbols : table.alphabet;
    for (unsigned s = 0; s < symbols; ++s) out.u16(table.frequencies[s]);
  }
  return bytes;
}

}  // namespace gradwire::entropy
