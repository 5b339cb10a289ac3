// Lloyd's conditions - bounds in the middle of levels, levels the centroids of their cells - solved
// by Newton's method: Lloyd's iteration takes some n^2 rounds for n levels.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <vector>

#include "base/portable_math.h"
#include "lossy/gennorm/codebook.h"
#include "lossy/gennorm/distribution.h"

namespace gradwire::lossy {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kTolerance = 1e-11;
constexpr int kMostRounds = 200;
constexpr std::size_t kMostKept = 512;  // of up to 1 KiB

using Positives = std::vector<double>;

/// The upper half of the problem, in units of alpha.
struct Problem {
  double beta;
  double weight_power;
  bool has_zero;  ///< an odd number of levels: one is zero

  double bound_below(const Positives& levels, std::size_t i) const {
    if (i > 0) return 0.5 * (levels[i - 1] + levels[i]);
    return has_zero ? 0.5 * levels[0] : 0;
  }
  double bound_above(const Positives& levels, std::size_t i) const {
    return i + 1 < levels.size() ? 0.5 * (levels[i] + levels[i + 1]) : kInfinity;
  }
  /// x^M times the density of the magnitude.
  double weight(double x) const {
    if (std::isinf(x)) return 0;
    return power(x, weight_power) * 2 * Gennorm{beta, 1}.density(x);
  }
};

/// What Newton's method needs to know of a set of levels.
struct Residuals {
  std::vector<double> off;    ///< level less centroid
  std::vector<double> below;  ///< derivative of the centroid by the lower bound
  std::vector<double> above;  ///< by the upper bound
  double worst = 0;           ///< largest |off| / level
};

Residuals residuals_of(const Problem& problem, const Positives& levels) {
  const std::size_t n = levels.size();
  Residuals result{std::vector<double>(n), std::vector<double>(n), std::vector<double>(n)};
  for (std::size_t i = 0; i < n; ++i) {
    const double from = problem.bound_below(levels, i);
    const double to = problem.bound_above(levels, i);
    const double mass = part_of_moment(problem.beta, problem.weight_power, from, to);
    const double first = part_of_moment(problem.beta, problem.weight_power + 1, from, to);
    const double centroid = first / mass;
    result.off[i] = levels[i] - centroid;
    result.below[i] = problem.weight(from) * (centroid - from) / mass;
    result.above[i] = std::isinf(to) ? 0 : problem.weight(to) * (to - centroid) / mass;
    // Not a number where a cell is empty: worse than anything.
    const double relative = std::abs(result.off[i]) / levels[i];
    result.worst = relative <= result.worst ? result.worst : relative;
    if (!(relative < kInfinity)) return result.worst = kInfinity, result;
  }
  return result;
}

/// Solves J step = off, J the derivative of `off` by the levels: tridiagonal, by elimination.
Positives newton_step(const Problem& problem, const Residuals& at) {
  const std::size_t n = at.off.size();
  Positives diagonal(n);
  Positives step = at.off;
  for (std::size_t i = 0; i < n; ++i) {
    const bool moves = i > 0 || problem.has_zero;  // the bound at zero does not
    diagonal[i] = 1 - 0.5 * at.above[i] - (moves ? 0.5 * at.below[i] : 0);
    if (i == 0) continue;
    const double factor = -0.5 * at.below[i] / diagonal[i - 1];
    diagonal[i] += factor * 0.5 * at.above[i - 1];
    step[i] -= factor * step[i - 1];
  }
  for (std::size_t i = n; i-- > 0;) {
    if (i + 1 < n) step[i] += 0.5 * at.above[i] * step[i + 1];
    step[i] /= diagonal[i];
  }
  return step;
}

bool is_ascending(const Positives& levels) {
  double last = 0;
  for (const double level : levels) {
    if (!(level > last && level < kInfinity)) return false;
    last = level;
  }
  return true;
}

/// levels - part * step, if that is better.
bool try_step(const Problem& problem, const Positives& step, double part, Positives& levels,
              Residuals& at) {
  Positives moved = levels;
  for (std::size_t i = 0; i < moved.size(); ++i) moved[i] -= part * step[i];
  if (!is_ascending(moved)) return false;
  Residuals there = residuals_of(problem, moved);
  if (!(there.worst < at.worst)) return false;
  levels = std::move(moved);
  at = std::move(there);
  return true;
}

/// Where the best levels are if there are many (Panter, Dite 1951): as dense as the cube root of
/// the weighted density, which is x^(M / 3) exp(-x^beta / 3), a moment's part again.
Positives first_levels(const Problem& problem, std::size_t n) {
  const double stretch = power(3, 1 / problem.beta);
  const double order = problem.weight_power / 3;
  const double all = part_of_moment(problem.beta, order, 0, kInfinity);
  const double first = problem.has_zero ? 1 : 0.5;
  const double cells = static_cast<double>(n) + (problem.has_zero ? 0.5 : 0);
  const double root = 1 / std::min(problem.beta, 1.0);  // searched is x^(1 / root), up to 400
  Positives levels(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double share = (first + static_cast<double>(i)) / cells;
    double low = 0;
    double high = 400;
    for (int round = 0; round < 50; ++round) {
      const double middle = 0.5 * (low + high);
      const double below = part_of_moment(problem.beta, order, 0, power(middle, root)) / all;
      (below < share ? low : high) = middle;
    }
    levels[i] = power(0.5 * (low + high), root) * stretch;
  }
  return levels;
}

Positives solve(const Problem& problem, std::size_t n) {
  Positives levels = first_levels(problem, n);
  Residuals at = residuals_of(problem, levels);
  for (int round = 0; round < kMostRounds && at.worst > kTolerance; ++round) {
    const Positives step = newton_step(problem, at);
    bool better = false;
    for (double part = 1; part > 0.01 && !better; part *= 0.5)
      better = try_step(problem, step, part, levels, at);
    if (better) continue;
    if (at.worst < 100 * kTolerance) break;  // as near as rounding allows
    for (std::size_t i = 0; i < n; ++i) levels[i] -= at.off[i];
    at = residuals_of(problem, levels);
  }
  return levels;
}

Levels design(unsigned row, unsigned count, unsigned weight_power) {
  const double beta = beta_of_row(row);
  const Problem problem{beta, static_cast<double>(weight_power), count % 2 == 1};
  const std::size_t half = count / 2;
  const Positives positives = solve(problem, half);
  const double alpha = unit_alpha(beta);
  Levels levels(count);
  for (std::size_t i = 0; i < half; ++i) {
    levels[count - half + i] = static_cast<float>(positives[i] * alpha);
    levels[half - 1 - i] = -levels[count - half + i];
  }
  return levels;
}

}  // namespace

std::shared_ptr<const Levels> lloyd_levels(unsigned row, unsigned levels, unsigned weight_power) {
  using Key = std::array<unsigned, 3>;
  static std::mutex mutex;
  static std::map<Key, std::shared_ptr<const Levels>> kept;
  const std::lock_guard lock(mutex);
  const Key key{row, levels, weight_power};
  if (const auto found = kept.find(key); found != kept.end()) return found->second;
  if (kept.size() >= kMostKept) kept.clear();
  return kept[key] = std::make_shared<const Levels>(design(row, levels, weight_power));
}

}  // namespace gradwire::lossy
