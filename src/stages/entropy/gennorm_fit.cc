// The fits of gennorm tables: exhaustive for two bytes, a search from a coarse grid for more.

#include <algorithm>

#include "stages/entropy/fixed_log2.h"
#include "stages/entropy/gennorm_model.h"

namespace gradwire::entropy {
namespace {

using namespace gennorm;

/// A residual that begins here or below ends where the table begins, or below.
constexpr int kLowEdge = kFirstEdge - 4;
constexpr std::size_t kEdges = kLastEdge - kLowEdge + 1;

// --- two bytes ---------------------------------------------------------------------

/// A window laid over the distribution of one shape.
struct Placed {
  unsigned row;
  int start;  ///< edge of the window's first residual
  int step;   ///< quarter octaves a residual
  unsigned symbols;
  unsigned window;

  std::uint64_t below(unsigned residual) const {
    return below_edge(row, start + static_cast<int>(residual) * step);
  }
  /// Of each symbol of a residual.
  std::uint64_t residual_weight(unsigned residual) const {
    return (below(residual + 1) - below(residual)) / symbols + kFloor;
  }
  std::uint64_t escape_weight() const { return below(0) + kTotal - below(window) + kFloor; }
};

/// Counts by residual, whatever the flips.
struct Observed {
  std::array<std::uint64_t, kMaxAlphabet> residuals{};
  std::uint64_t zeros;
  std::uint64_t escapes;
  std::uint64_t sum = 0;

  Observed(std::span<const std::uint32_t> counts, unsigned symbols)
      : zeros(counts[counts.size() - 2]), escapes(counts[counts.size() - 1]) {
    for (std::size_t s = 0; s + 2 < counts.size(); ++s) residuals[s / symbols] += counts[s];
    for (const std::uint32_t count : counts) sum += count;
  }
};

/// log2 of the weight of a residual's symbols, by shape and by the residual's lower edge.
using WeightLogs = std::array<std::array<std::uint32_t, kEdges>, kShapes>;

WeightLogs make_logs(GennormLayout layout) {
  WeightLogs logs;
  for (unsigned row = 0; row < kShapes; ++row) {
    for (std::size_t i = 0; i < kEdges; ++i) {
      const Placed at_edge{row, kLowEdge + static_cast<int>(i), edge_step(layout),
                           symbols_a_residual(layout), 1};
      logs[row][i] = fixed_log2(at_edge.residual_weight(0));
    }
  }
  return logs;
}

/// Made once for all layouts: a fit looks at a thousand candidates.
const WeightLogs& weight_logs(GennormLayout layout) {
  static const auto all = [] {
    std::array<WeightLogs, 2 * (kMaxStepLog2 + 1)> logs;
    for (unsigned i = 0; i < logs.size(); ++i) logs[i] = make_logs({i / 2, i % 2 != 0});
    return logs;
  }();
  return all[2 * layout.step_log2 + layout.flips];
}

/// What the logarithms of the weights save; the cost is a constant less this.
std::uint64_t saved(const Observed& observed, const Placed& placed,
                    const std::array<std::uint32_t, kEdges>& logs) {
  std::uint64_t sum = observed.escapes * fixed_log2(placed.escape_weight());
  for (unsigned v = 0; v < placed.window; ++v) {
    const int edge =
        std::clamp(placed.start + static_cast<int>(v) * placed.step, kLowEdge, kLastEdge);
    sum += observed.residuals[v] * logs[static_cast<std::size_t>(edge - kLowEdge)];
  }
  return sum;
}

/// The zero's weight matters to the others through the total only, so it is chosen by itself.
unsigned best_zero_class(const Observed& observed, std::size_t alphabet) {
  std::array<std::uint64_t, kZeroWeights.size()> cost;
  for (std::size_t k = 0; k < cost.size(); ++k) {
    const std::uint64_t total = kTotal + kFloor * alphabet + kZeroWeights[k];
    cost[k] =
        observed.sum * fixed_log2(total) - observed.zeros * fixed_log2(kZeroWeights[k] + kFloor);
  }
  return static_cast<unsigned>(std::min_element(cost.begin(), cost.end()) - cost.begin());
}

// --- more bytes --------------------------------------------------------------------

/// Coordinates of a search: row and median of a part; and a mean, or the other part and its share.
using Point = std::array<int, 5>;

struct Space {
  std::size_t dimensions;
  Point limits;
  Point steps;  ///< the widest; then halves of them, at least 1
};

constexpr Space kPlainSpace{2, {kShapes, kMedians}, {1, 1}};

constexpr Space kMeanSpace{3, {kShapes, kMedians, kMeans}, {2, 4, 4}};
constexpr Space kMixtureSpace{5, {kShapes, kMedians, kShapes, kMedians, kShares}, {4, 4, 4, 4, 8}};

const Space& space_of(const Fields& fields) {
  if (!fields.more) return kPlainSpace;
  return fields.layout.flips ? kMeanSpace : kMixtureSpace;
}

Point point_of(const Fields& fields) {
  const auto at = [](unsigned value) { return static_cast<int>(value); };
  Point point{at(fields.part.row), at(fields.part.median), at(fields.other.row),
              at(fields.other.median), at(fields.share)};
  if (fields.has_mean()) point[2] = at(fields.mean);
  return point;
}

Fields moved_to(const Point& point, Fields fields) {
  std::array<unsigned, 5> values;
  std::copy(point.begin(), point.end(), values.begin());
  fields.part = {values[0], values[1]};
  if (fields.has_mean()) {
    fields.mean = values[2];
  } else {
    fields.other = {values[2], values[3]};
    fields.share = values[4];
  }
  return fields;
}

bool is_inside(const Space& space, const Point& point) {
  for (std::size_t i = 0; i < space.dimensions; ++i) {
    if (point[i] < 0 || point[i] >= space.limits[i]) return false;
  }
  return true;
}

/// Looks for the fields with the shortest ideal code.
class Search {
 public:
  Search(std::span<const std::uint32_t> counts, Fields plain) : counts_(counts), fields_(plain) {
    fields_.more = true;
  }

  Fields run() {
    if (fields_.has_mean()) {
      start_with_means();
    } else {
      start_with_mixtures();
    }
    for (int halvings = 0; halvings < 4; ++halvings) {
      while (improve(halvings)) {
      }
    }
    return moved_to(best_, fields_);
  }

  /// What the logarithms of the weights save.
  std::uint64_t saved(const Fields& fields) const {
    std::array<std::uint64_t, kMaxAlphabet> buffer;
    const auto weights = std::span(buffer).first(counts_.size());
    fill_weights(fields, weights);
    std::uint64_t sum = 0;
    for (std::size_t s = 0; s < counts_.size(); ++s) {
      if (counts_[s] != 0) sum += std::uint64_t{counts_[s]} * fixed_log2(weights[s]);
    }
    return sum;
  }

 private:
  bool offer(const Point& point) {
    if (!is_inside(space_of(fields_), point)) return false;
    const std::uint64_t candidate = saved(moved_to(point, fields_));
    if (candidate <= most_saved_) return false;
    most_saved_ = candidate;
    best_ = point;
    return true;
  }

  /// Means within one and a half octaves of the most frequent residual without a flip.
  void start_with_means() {
    std::size_t mode = 0;
    for (std::size_t s = 2; s + 2 < counts_.size(); s += 2) {
      if (counts_[s] > counts_[mode]) mode = s;
    }
    const int window = static_cast<int>(counts_.size()) / 2 - 1;
    const int step = edge_step(fields_.layout);
    const int edge = first_edge(fields_.layout, static_cast<unsigned>(window)) +
                     static_cast<int>(mode) / 2 * step;
    const int centre = 4 * edge + 2 * step;
    for (int mean = centre - 24; mean <= centre + 24; mean += 4) {
      for (int row = 1; row < static_cast<int>(kShapes); row += 3) {
        for (int median = 0; median < static_cast<int>(kMedians); median += 4) {
          offer({row, median, mean});
        }
      }
    }
  }

  void start_with_mixtures() {
    for (int low = 0; low < static_cast<int>(kMedians); low += 4) {
      for (int high = low + 4; high < static_cast<int>(kMedians); high += 4) {
        for (const int share : {8, 32, 56}) {
          for (const int row : {6, 12}) {
            for (const int other : {6, 12}) offer({row, low, other, high, share});
          }
        }
      }
    }
  }

  bool improve(int halvings) {
    bool improved = false;
    const Space& space = space_of(fields_);
    for (std::size_t i = 0; i < space.dimensions; ++i) {
      const int step = std::max(space.steps[i] >> halvings, 1);
      for (const int move : {-step, step}) {
        Point point = best_;
        point[i] += move;
        improved |= offer(point);
      }
    }
    return improved;
  }

  std::span<const std::uint32_t> counts_;
  Fields fields_;
  Point best_{};
  std::uint64_t most_saved_ = 0;
};

/// Bits that an ideal code spends beyond the entropy.
std::uint64_t wasted_bits(std::span<const std::uint32_t> counts, std::uint64_t n,
                          std::uint64_t total_weight, std::uint64_t saved) {
  std::uint64_t certainty = 0;
  for (const std::uint32_t count : counts) {
    if (count != 0) certainty += std::uint64_t{count} * fixed_log2(count);
  }
  const std::uint64_t cost = n * fixed_log2(total_weight) - saved;
  const std::uint64_t entropy = n * fixed_log2(n) - certainty;
  return cost > entropy ? (cost - entropy) >> kLog2Bits : 0;
}

}  // namespace

std::optional<GennormParameters> fit_gennorm(std::span<const std::uint32_t> counts,
                                             GennormLayout layout) {
  const unsigned window = window_of(counts.size(), layout);
  if (window == 0) return std::nullopt;
  const unsigned symbols = symbols_a_residual(layout);
  const int first = first_edge(layout, window);
  const Observed observed(counts, symbols);
  Fields best;
  best.layout = layout;
  best.zero_class = best_zero_class(observed, counts.size());
  const WeightLogs& logs = weight_logs(layout);
  std::uint64_t most_saved = 0;
  for (unsigned row = 0; row < kShapes; ++row) {
    for (unsigned median = 0; median < kMedians; ++median) {
      const Placed placed{row, first - static_cast<int>(median), edge_step(layout), symbols,
                          window};
      const std::uint64_t candidate = saved(observed, placed, logs[row]);
      if (candidate <= most_saved) continue;
      most_saved = candidate;
      best.part = {row, median};
    }
  }
  return pack(best);
}

std::optional<GennormParameters> fit_gennorm_more(std::span<const std::uint32_t> counts,
                                                  const GennormParameters& plain) {
  const Fields fields = unpack(plain);
  if (window_of(counts.size(), fields.layout) == 0) return std::nullopt;
  std::uint64_t n = 0;
  for (const std::uint32_t count : counts) n += count;
  if (n == 0) return std::nullopt;
  Search search(counts, fields);
  const std::uint64_t total = kTotal + kFloor * counts.size() + kZeroWeights[fields.zero_class];
  // More bytes take 16 bits and some thousand trials.
  if (wasted_bits(counts, n, total, search.saved(fields)) < 32 + n / 128) return std::nullopt;
  return pack(search.run());
}

std::vector<GennormParameters> gennorm_neighbours(const GennormParameters& parameters) {
  const Fields fields = unpack(parameters);
  const Space& space = space_of(fields);
  std::vector<GennormParameters> result;
  for (std::size_t i = 0; i < space.dimensions; ++i) {
    for (const int move : {-1, 1}) {
      Point point = point_of(fields);
      point[i] += move;
      if (is_inside(space, point)) result.push_back(pack(moved_to(point, fields)));
    }
  }
  return result;
}

}  // namespace gradwire::entropy
