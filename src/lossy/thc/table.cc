#include "lossy/thc/table.h"

#include <algorithm>
#include <limits>

#include "base/fail.h"
#include "lossy/thc/normal.h"

namespace gradwire::lossy {
namespace {

/// The error that values between two points of the grid contribute: the integral over z of
/// (z - a)(b - z) density(z), which is what a random choice between a and b costs.
class Grid {
 public:
  Grid(unsigned top, double limit) {
    for (unsigned i = 0; i <= top; ++i) {
      const double z = (2.0 * i - top) / top * limit;
      points_.push_back({z, normal_density(z), normal_probability(z)});
    }
  }
  double between(unsigned from, unsigned to) const noexcept {
    const Point& a = points_[from];
    const Point& b = points_[to];
    const double mass = b.probability - a.probability;
    const double first = a.density - b.density;
    const double second = mass + a.z * a.density - b.z * b.density;
    return (a.z + b.z) * first - second - a.z * b.z * mass;
  }

 private:
  struct Point {
    double z, density, probability;
  };
  std::vector<Point> points_;
};

/// Paths over the points 0 .. last that start at 0: the least error of k steps to each point.
class Paths {
 public:
  Paths(const Grid& grid, unsigned last, unsigned steps)
      : width_(last + 1), error_(width_ * (steps + 1), kNone), previous_(error_.size(), 0) {
    error_[0] = 0;
    for (unsigned k = 1; k <= steps; ++k) {
      for (unsigned to = k; to <= last; ++to) extend(grid, k, to);
    }
  }
  double error(unsigned steps, unsigned to) const noexcept { return error_[steps * width_ + to]; }
  /// The points of the best path, 0 and `to` included.
  std::vector<std::uint8_t> points(unsigned steps, unsigned to) const {
    std::vector<std::uint8_t> points(steps + 1);
    for (unsigned k = steps;; --k) {
      points[k] = static_cast<std::uint8_t>(to);
      if (k == 0) return points;
      to = previous_[k * width_ + to];
    }
  }

 private:
  static constexpr double kNone = std::numeric_limits<double>::infinity();

  /// Of equal paths, that with the lower point stays.
  void extend(const Grid& grid, unsigned k, unsigned to) {
    double& best = error_[k * width_ + to];
    for (unsigned from = k - 1; from < to; ++from) {
      const double error = error_[(k - 1) * width_ + from] + grid.between(from, to);
      if (error >= best) continue;
      best = error;
      previous_[k * width_ + to] = from;
    }
  }

  std::size_t width_;
  std::vector<double> error_;
  std::vector<unsigned> previous_;
};

/// A path to the middle, one step across it, and the path's mirror image.
std::vector<std::uint8_t> symmetric_entries(const Grid& grid, unsigned top, unsigned entries) {
  const unsigned last = (top - 1) / 2;
  const unsigned steps = entries / 2 - 1;
  const Paths paths(grid, last, steps);
  const auto error = [&](unsigned to) {
    return 2 * paths.error(steps, to) + grid.between(to, top - to);
  };
  unsigned best = steps;
  for (unsigned to = steps + 1; to <= last; ++to)
    if (error(to) < error(best)) best = to;
  std::vector<std::uint8_t> points = paths.points(steps, best);
  for (unsigned k = entries / 2; k-- > 0;)
    points.push_back(static_cast<std::uint8_t>(top - points[k]));
  return points;
}

void check_options(const TableOptions& options) {
  if (options.bits < 1 || options.bits > 8)
    fail(ErrorKind::invalid_argument, "bits: {} given, 1 to 8 are allowed", options.bits);
  const unsigned least = (1u << options.bits) - 1;
  if (options.top < least || options.top > 255)
    fail(ErrorKind::invalid_argument, "top: {} given, {} to 255 are allowed with {} bits",
         options.top, least, options.bits);
  if (!(options.clipped >= 1e-6 && options.clipped <= 0.5))
    fail(ErrorKind::invalid_argument, "clipped: {} given, 1e-6 to 0.5 are allowed",
         options.clipped);
}

}  // namespace

Table optimal_table(const TableOptions& options) {
  check_options(options);
  const double limit = normal_limit(options.clipped);
  const Grid grid(options.top, limit);
  const unsigned entries = 1u << options.bits;
  std::vector<std::uint8_t> best =
      options.symmetric ? symmetric_entries(grid, options.top, entries)
                        : Paths(grid, options.top, entries - 1).points(entries - 1, options.top);
  return {options.bits, options.top, limit, std::move(best)};
}

double rounding_error(std::span<const std::uint8_t> entries, unsigned top, double limit) noexcept {
  const Grid grid(top, limit);
  double error = 0;
  for (std::size_t j = 1; j < entries.size(); ++j)
    error += grid.between(entries[j - 1], entries[j]);
  return error;
}

double clipping_error(double limit) noexcept {
  const double outside = 1 - 2 * normal_probability(limit);
  return (1 + limit * limit) * outside - 2 * limit * normal_density(limit);
}

}  // namespace gradwire::lossy
