#include "stages/entropy/gennorm.h"

#include <algorithm>
#include <array>

#include "stages/entropy/fixed_log2.h"

namespace gradwire::entropy {
namespace {

constexpr int kFirstEdge = -64;
constexpr int kLastEdge = 48;
constexpr std::size_t kEdges = kLastEdge - kFirstEdge + 1;
constexpr std::uint64_t kTotal = 1u << 20;
/// Every symbol has at least this weight, 2^-12 of the total.
constexpr std::uint64_t kFloor = 256;
constexpr std::array<std::uint64_t, 4> kZeroWeights{0, kTotal >> 6, kTotal >> 3, kTotal >> 1};
constexpr unsigned kShapes = 16;
constexpr unsigned kMedians = 64;
constexpr unsigned kMaxStepLog2 = 2;
constexpr std::size_t kMaxAlphabet = 126;

struct ShapeRow {
  unsigned hundredths;
  std::array<std::uint32_t, kEdges> below;

  /// 2^20 times the probability of lying below an edge, in quarter octaves from the median.
  std::uint64_t below_edge(int edge) const {
    const int i = std::clamp(edge, kFirstEdge, kLastEdge) - kFirstEdge;
    return below[static_cast<std::size_t>(i)];
  }
};

constexpr std::array<ShapeRow, kShapes> kTable{{
#include "stages/entropy/gennorm_table.inc"
}};

/// Shape byte: bits 0-3 row, bit 4 flips, bits 5-6 step_log2. Scale byte: bits 0-5 median in
/// quarter octaves above the window's start, bits 6-7 class of the zero's weight.
struct Fields {
  unsigned row;
  GennormLayout layout;
  unsigned median;
  unsigned zero_class;
};

constexpr Fields unpack(std::uint8_t shape, std::uint8_t scale) {
  return {shape & 15u, {shape >> 5 & 3u, (shape >> 4 & 1) != 0}, scale & 63u, scale >> 6 & 3u};
}

constexpr GennormParameters pack(const Fields& fields) {
  const unsigned flips = fields.layout.flips ? 16 : 0;
  return {static_cast<std::uint8_t>(fields.row | flips | fields.layout.step_log2 << 5),
          static_cast<std::uint8_t>(fields.median | fields.zero_class << 6)};
}

unsigned symbols_a_residual(GennormLayout layout) { return layout.flips ? 2 : 1; }

/// Residuals in an alphabet, 0 when it has not this layout.
unsigned window_of(std::size_t alphabet, GennormLayout layout) {
  const unsigned symbols = symbols_a_residual(layout);
  const bool possible = alphabet > 2 && alphabet <= kMaxAlphabet && alphabet % symbols == 0;
  return possible && layout.step_log2 <= kMaxStepLog2
             ? static_cast<unsigned>(alphabet - 2) / symbols
             : 0;
}

/// A window laid over the distribution of one shape.
struct Placed {
  const ShapeRow& row;
  int start;         ///< edge of the window's first residual
  int step;          ///< quarter octaves a residual
  unsigned symbols;  ///< symbols a residual
  unsigned window;

  Placed(unsigned row_number, GennormLayout layout, unsigned median, unsigned residuals)
      : row(kTable[row_number]),
        start(-static_cast<int>(median)),
        step(4 >> layout.step_log2),
        symbols(symbols_a_residual(layout)),
        window(residuals) {}

  std::uint64_t below(unsigned residual) const {
    return row.below_edge(start + static_cast<int>(residual) * step);
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
    Placed at_edge(row, layout, 0, 1);
    for (std::size_t i = 0; i < kEdges; ++i) {
      at_edge.start = kFirstEdge + static_cast<int>(i);
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
    const int edge = std::min(placed.start + static_cast<int>(v) * placed.step, kLastEdge);
    sum += observed.residuals[v] * logs[static_cast<std::size_t>(edge - kFirstEdge)];
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

}  // namespace

bool gennorm_weights(std::uint8_t shape, std::uint8_t scale, std::span<std::uint64_t> weights) {
  const Fields fields = unpack(shape, scale);
  const unsigned window = window_of(weights.size(), fields.layout);
  if (window == 0 || shape >> 7 != 0) return false;
  const Placed placed(fields.row, fields.layout, fields.median, window);
  for (std::size_t s = 0; s + 2 < weights.size(); ++s) {
    weights[s] = placed.residual_weight(static_cast<unsigned>(s) / placed.symbols);
  }
  weights[weights.size() - 2] = kZeroWeights[fields.zero_class] + kFloor;
  weights[weights.size() - 1] = placed.escape_weight();
  return true;
}

std::optional<GennormParameters> fit_gennorm(std::span<const std::uint32_t> counts,
                                             GennormLayout layout) {
  const unsigned window = window_of(counts.size(), layout);
  if (window == 0) return std::nullopt;
  const Observed observed(counts, symbols_a_residual(layout));
  Fields best{0, layout, 0, best_zero_class(observed, counts.size())};
  const WeightLogs& logs = weight_logs(layout);
  std::uint64_t most_saved = 0;
  for (unsigned row = 0; row < kShapes; ++row) {
    for (unsigned median = 0; median < kMedians; ++median) {
      const Placed placed(row, layout, median, window);
      const std::uint64_t candidate = saved(observed, placed, logs[row]);
      if (candidate <= most_saved) continue;
      most_saved = candidate;
      best.row = row;
      best.median = median;
    }
  }
  return pack(best);
}

double gennorm_shape(std::uint8_t shape) { return kTable[shape & 15].hundredths / 100.0; }

}  // namespace gradwire::entropy
