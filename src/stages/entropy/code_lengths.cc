#include "stages/entropy/code_lengths.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <numeric>

#include "stages/entropy/fixed_log2.h"

namespace gradwire::entropy {
namespace {

constexpr std::uint32_t kFrequencySum = 1u << kProbabilityBits;

/// The used symbols in ascending (weight, symbol); a key is weight << 8 | symbol.
struct SortedItems {
  std::array<std::uint64_t, kMaxSymbols> keys;
  std::size_t count = 0;

  explicit SortedItems(std::span<const std::uint64_t> weights) {
    for (std::size_t s = 0; s < weights.size(); ++s) {
      if (weights[s] > 0) keys[count++] = weights[s] << 8 | s;
    }
    std::sort(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(count));
  }
  std::uint64_t weight(std::size_t i) const { return keys[i] >> 8; }
  std::size_t symbol(std::size_t i) const { return keys[i] & 255; }
};

/// One list of package-merge: only the first 2 (count - 1) entries of a list can matter.
struct MergedList {
  std::array<std::uint64_t, 2 * kMaxSymbols> weights;
  std::size_t size = 0;
};

/// Of the first k entries of a list, how many are items and not packages.
using ItemsAmong = std::array<std::uint16_t, 2 * kMaxSymbols + 1>;

/// Merges the items with the packages of two made of the list below; at equal weight items go
/// first.
void merge_level(const SortedItems& items, const MergedList& below, MergedList& merged,
                 ItemsAmong& items_among) {
  const std::size_t packages = below.size / 2;
  const std::size_t size = std::min(items.count + packages, 2 * (items.count - 1));
  std::size_t item = 0;
  std::size_t package = 0;
  items_among[0] = 0;
  for (std::size_t k = 0; k < size; ++k) {
    const std::uint64_t item_weight = item < items.count ? items.weight(item) : UINT64_MAX;
    const std::uint64_t package_weight =
        package < packages ? below.weights[2 * package] + below.weights[2 * package + 1]
                           : UINT64_MAX;
    const bool take_item = item_weight <= package_weight;
    merged.weights[k] = take_item ? item_weight : package_weight;
    item += take_item;
    package += !take_item;
    items_among[k + 1] = static_cast<std::uint16_t>(item);
  }
  merged.size = size;
}

/// Huffman's tree over items in ascending order, in place (Moffat and Katajainen, In-place
/// calculation of minimum-redundancy codes, 1995): weights become depths, descending.
void weights_to_depths(std::uint64_t* a, std::size_t n) {
  std::size_t leaf = 0;
  std::size_t root = 0;
  const auto take = [&](std::size_t next) {
    const bool inner = leaf >= n || (root < next && a[root] < a[leaf]);
    if (!inner) return a[leaf++];
    const std::uint64_t weight = a[root];
    a[root++] = next;  // an inner node that has been joined holds its parent
    return weight;
  };
  for (std::size_t next = 0; next < n - 1; ++next) {
    const std::uint64_t first = take(next);
    a[next] = first + take(next);
  }
  a[n - 2] = 0;
  for (std::size_t next = n - 2; next-- > 0;) a[next] = a[a[next]] + 1;
  std::size_t open = 1;  // nodes of a depth that are not yet known to be inner
  std::uint64_t depth = 0;
  std::size_t inner = n - 1;
  for (std::size_t at = n; open > 0; ++depth) {
    std::size_t used = 0;
    for (; inner > 0 && a[inner - 1] == depth; --inner) ++used;
    for (; open > used; --open) a[--at] = depth;
    open = 2 * used;
  }
}

/// A code of one symbol is made complete by a partner that is never used.
Values lone_symbol(std::size_t symbol) {
  Values lengths{};
  lengths[symbol] = 1;
  lengths[symbol == 0 ? 1 : 0] = 1;
  return lengths;
}

std::size_t largest(const Values& frequencies) {
  return static_cast<std::size_t>(std::max_element(frequencies.begin(), frequencies.end()) -
                                  frequencies.begin());
}

}  // namespace

Values code_lengths(std::span<const std::uint64_t> weights, unsigned limit) {
  assert(weights.size() <= kMaxSymbols && limit <= kMaxCodeLength);
  const SortedItems items(weights);
  if (items.count < 2) return lone_symbol(items.count == 0 ? 0 : items.symbol(0));
  assert(items.count <= std::size_t{1} << limit);

  std::array<MergedList, 2> lists;
  std::array<ItemsAmong, kMaxCodeLength> items_among;
  for (unsigned level = 0; level < limit; ++level) {
    merge_level(items, lists[(level + 1) & 1], lists[level & 1], items_among[level]);
  }

  // Every level adds one bit to the items among its chosen entries; these are its lightest ones,
  // and each package among them stands for two entries of the level below.
  Values lengths{};
  std::size_t chosen = 2 * (items.count - 1);
  for (unsigned level = limit; level-- > 0;) {
    const std::size_t chosen_items = items_among[level][chosen];
    for (std::size_t i = 0; i < chosen_items; ++i) ++lengths[items.symbol(i)];
    chosen = 2 * (chosen - chosen_items);
  }
  return lengths;
}

Values quick_code_lengths(std::span<const std::uint64_t> weights, unsigned limit) {
  assert(weights.size() <= kMaxSymbols && limit <= kMaxCodeLength);
  const SortedItems items(weights);
  if (items.count < 2) return code_lengths(weights, limit);
  std::array<std::uint64_t, kMaxSymbols> depths;
  for (std::size_t i = 0; i < items.count; ++i) depths[i] = items.weight(i);
  weights_to_depths(depths.data(), items.count);
  if (depths[0] > limit) return code_lengths(weights, limit);
  Values lengths{};
  for (std::size_t i = 0; i < items.count; ++i)
    lengths[items.symbol(i)] = static_cast<std::uint16_t>(depths[i]);
  return lengths;
}

Values normalised_frequencies(std::span<const std::uint64_t> weights) {
  assert(weights.size() <= kMaxSymbols);
  const std::uint64_t total = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
  Values frequencies{};
  if (total == 0) {
    frequencies[0] = kFrequencySum;
    return frequencies;
  }
  std::uint32_t sum = 0;
  for (std::size_t s = 0; s < weights.size(); ++s) {
    if (weights[s] == 0) continue;
    const std::uint64_t share = (weights[s] << kProbabilityBits) / total;
    frequencies[s] = static_cast<std::uint16_t>(std::max<std::uint64_t>(1, share));
    sum += frequencies[s];
  }
  for (; sum > kFrequencySum; --sum) --frequencies[largest(frequencies)];
  std::uint16_t& top = frequencies[largest(frequencies)];
  top = static_cast<std::uint16_t>(top + (kFrequencySum - sum));
  return frequencies;
}

Values best_frequencies(std::span<const std::uint64_t> weights) {
  Values frequencies = normalised_frequencies(weights);
  const auto change = [&](std::size_t s, unsigned from) {  // of the bits, by one more slot
    return weights[s] * (fixed_log2(from + 1) - fixed_log2(from));
  };
  // An exchange of a slot always makes the code shorter, so that there is an end to it.
  for (;;) {
    std::size_t taker = 0, giver = 0;
    std::uint64_t gain = 0, loss = UINT64_MAX;
    for (std::size_t s = 0; s < weights.size(); ++s) {
      const unsigned frequency = frequencies[s];
      if (weights[s] == 0) continue;
      if (const auto more = change(s, frequency); more > gain) taker = s, gain = more;
      if (frequency < 2) continue;
      if (const auto less = change(s, frequency - 1u); less < loss) giver = s, loss = less;
    }
    if (taker == giver || gain <= loss) return frequencies;
    ++frequencies[taker];
    --frequencies[giver];
  }
}

}  // namespace gradwire::entropy
