#include "stages/entropy/table_clusters.h"

#include <algorithm>
#include <numeric>

namespace gradwire::entropy {
namespace {

constexpr std::uint64_t kMemberWeight = 1u << 14;
constexpr unsigned kSeedRounds = 3;  ///< of moving the centres, after each new one
constexpr unsigned kFinalRounds = 20;
constexpr std::size_t kFewestMembers = 8;  ///< a table of fewer speaks for them only

struct Centre {
  Values frequencies;
  Values lengths;
};

Centre centre_of(std::span<const std::uint64_t> weights) {
  Centre centre{normalised_frequencies(weights), {}};
  const std::vector<std::uint64_t> frequencies(centre.frequencies.begin(),
                                               centre.frequencies.end());
  centre.lengths = code_lengths(frequencies);
  return centre;
}

std::uint64_t bits_of(const ScaledHistogram& member, const Values& lengths) {
  std::uint64_t bits = 0;
  for (const auto& [symbol, weight] : member) bits += std::uint64_t{weight} * lengths[symbol];
  return bits;
}

class Clusters {
 public:
  Clusters(std::span<const ScaledHistogram> members, unsigned symbols)
      : members_(members),
        symbols_(symbols),
        nearest_(members.size(), 0),
        bits_(members.size()),
        best_bits_(members.size()) {
    std::vector<std::uint64_t> weights(symbols);
    for (std::size_t m = 0; m < members.size(); ++m) {
      std::fill(weights.begin(), weights.end(), 0);
      add(members[m], weights);
      best_bits_[m] = bits_of(members[m], code_lengths(weights));
    }
    centres_.resize(1);
    move_centres();
  }

  void grow(unsigned tables) {
    assign();
    while (centres_.size() < tables && add_centre()) settle(kSeedRounds);
    settle(kFinalRounds);
    while (drop_fewest()) settle(kFinalRounds);
  }

  std::vector<Values> tables() const {
    const std::vector<std::size_t> sizes = cluster_sizes();
    std::vector<std::size_t> order(centres_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return sizes[a] > sizes[b]; });
    std::vector<Values> tables;
    for (const std::size_t c : order) tables.push_back(centres_[c].frequencies);
    return tables;
  }

 private:
  static void add(const ScaledHistogram& member, std::vector<std::uint64_t>& weights) {
    for (const auto& [symbol, weight] : member) weights[symbol] += weight;
  }

  std::uint64_t waste(std::size_t m) const { return bits_[m] - std::min(bits_[m], best_bits_[m]); }

  /// A new centre in the cluster that wastes the most bits: its member of median waste, since the
  /// farthest ones are odd and resemble no other (as seeds they cost 0.05 % at 0.5 to 2 KiB).
  bool add_centre() {
    std::vector<std::uint64_t> wasted(centres_.size());
    for (std::size_t m = 0; m < members_.size(); ++m) wasted[nearest_[m]] += waste(m);
    const auto worst =
        static_cast<unsigned>(std::max_element(wasted.begin(), wasted.end()) - wasted.begin());
    std::vector<std::size_t> far;
    for (std::size_t m = 0; m < members_.size(); ++m) {
      if (nearest_[m] == worst) far.push_back(m);
    }
    std::stable_sort(far.begin(), far.end(),
                     [&](std::size_t a, std::size_t b) { return waste(a) > waste(b); });
    const std::size_t seed = far[far.size() / 2];
    if (waste(seed) == 0) return false;
    std::vector<std::uint64_t> weights(symbols_, 1);
    add(members_[seed], weights);
    centres_.push_back(centre_of(weights));
    return true;
  }

  std::vector<std::size_t> cluster_sizes() const {
    std::vector<std::size_t> sizes(centres_.size());
    for (const unsigned c : nearest_) ++sizes[c];
    return sizes;
  }

  /// Gives up the centre with the fewest members if those are too few to speak for others.
  bool drop_fewest() {
    if (centres_.size() == 1) return false;
    const std::vector<std::size_t> sizes = cluster_sizes();
    const auto fewest = std::min_element(sizes.begin(), sizes.end());
    if (*fewest >= kFewestMembers) return false;
    centres_.erase(centres_.begin() + (fewest - sizes.begin()));
    std::fill(nearest_.begin(), nearest_.end(), 0);
    assign();
    move_centres();
    return true;
  }

  void settle(unsigned rounds) {
    for (unsigned round = 0; round < rounds && assign(); ++round) move_centres();
    assign();
  }

  /// True when a member has changed its centre.
  bool assign() {
    bool changed = false;
    for (std::size_t m = 0; m < members_.size(); ++m) {
      unsigned best = nearest_[m];
      bits_[m] = bits_of(members_[m], centres_[best].lengths);
      for (unsigned c = 0; c < centres_.size(); ++c) {
        const std::uint64_t bits = bits_of(members_[m], centres_[c].lengths);
        if (bits >= bits_[m]) continue;
        bits_[m] = bits;
        best = c;
      }
      changed |= best != nearest_[m];
      nearest_[m] = best;
    }
    return changed;
  }

  /// Every symbol gets a weight of 1, so that every table can code everything.
  void move_centres() {
    std::vector<std::vector<std::uint64_t>> sums(centres_.size(),
                                                 std::vector<std::uint64_t>(symbols_, 1));
    for (std::size_t m = 0; m < members_.size(); ++m) add(members_[m], sums[nearest_[m]]);
    for (std::size_t c = 0; c < centres_.size(); ++c) centres_[c] = centre_of(sums[c]);
  }

  std::span<const ScaledHistogram> members_;
  unsigned symbols_;
  std::vector<Centre> centres_;
  std::vector<unsigned> nearest_;
  std::vector<std::uint64_t> bits_;       ///< under the nearest centre
  std::vector<std::uint64_t> best_bits_;  ///< under a code of its own
};

}  // namespace

ScaledHistogram scale_histogram(std::span<const std::uint32_t> counts) {
  std::uint64_t total = 0;
  for (const std::uint32_t count : counts) total += count;
  ScaledHistogram scaled;
  for (std::size_t s = 0; s < counts.size(); ++s) {
    if (counts[s] == 0) continue;
    const std::uint64_t weight = std::max<std::uint64_t>(1, counts[s] * kMemberWeight / total);
    scaled.emplace_back(static_cast<std::uint16_t>(s), static_cast<std::uint16_t>(weight));
  }
  return scaled;
}

std::vector<Values> cluster_tables(std::span<const ScaledHistogram> members, unsigned symbols,
                                   unsigned tables) {
  if (members.empty() || tables == 0) return {};
  Clusters clusters(members, symbols);
  clusters.grow(tables);
  return clusters.tables();
}

}  // namespace gradwire::entropy
