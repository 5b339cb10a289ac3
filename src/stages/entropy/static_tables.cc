#include "stages/entropy/static_tables.h"

#include <algorithm>
#include <vector>

namespace gradwire::entropy {
namespace {

struct FamilyEntry {
  std::uint64_t id;
  std::uint16_t alphabet;
  bool pairs;
  std::uint16_t frequencies[kMaxSymbols];  ///< trailing zeros are left out
};

constexpr FamilyEntry kFamily[] = {
    {0, 0, false, {}},  // no table: an array needs an entry when the family is empty
#include "stages/entropy/static_family.inc"
};

StaticTable derive(const FamilyEntry& entry) {
  StaticTable table{entry.id, entry.alphabet, entry.pairs, {}, {}};
  std::copy(std::begin(entry.frequencies), std::end(entry.frequencies), table.frequencies.begin());
  const std::vector<std::uint64_t> weights(table.frequencies.begin(), table.frequencies.end());
  table.lengths = code_lengths(weights);
  return table;
}

std::vector<StaticTable> derive_all() {
  std::vector<StaticTable> tables;
  for (const FamilyEntry& entry : std::span(kFamily).subspan(1)) tables.push_back(derive(entry));
  return tables;
}

}  // namespace

std::span<const StaticTable> static_tables() {
  static const std::vector<StaticTable> tables = derive_all();
  return tables;
}

const StaticTable* find_static_table(std::uint64_t id) {
  const auto tables = static_tables();
  const auto found =
      std::lower_bound(tables.begin(), tables.end(), id,
                       [](const StaticTable& t, std::uint64_t v) { return t.id < v; });
  return found != tables.end() && found->id == id ? &*found : nullptr;
}

}  // namespace gradwire::entropy
