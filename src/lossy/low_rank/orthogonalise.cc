#include "lossy/low_rank/orthogonalise.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/clones.h"
#include "base/counter_random.h"

namespace gradwire::lossy {
namespace {

/// Squared share of a column below which it counts as a combination of those before it.
constexpr double kNothingNew = 0x1p-40;

inline double dot(const double* a, const double* b, std::size_t n) noexcept {
  constexpr std::size_t kLanes = 8;
  double sums[kLanes] = {};
  const std::size_t whole = n - n % kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  for (std::size_t i = whole; i < n; ++i) sums[i - whole] += a[i] * b[i];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

/// Takes from column `at` what those before it span, and gives it length 1. False if nothing is
/// left of it.
GRADWIRE_CLONES bool make_orthogonal(double* columns, std::size_t n, std::size_t at) noexcept {
  double* column = columns + at * n;
  const double before = dot(column, column, n);
  for (int pass = 0; pass < 2; ++pass)
    for (std::size_t k = 0; k < at; ++k) {
      const double* other = columns + k * n;
      const double share = dot(column, other, n);
      for (std::size_t i = 0; i < n; ++i) column[i] -= share * other[i];
    }
  const double after = dot(column, column, n);
  if (!(after > kNothingNew * before)) return false;
  const double length = std::sqrt(after);
  for (std::size_t i = 0; i < n; ++i) column[i] /= length;
  return true;
}

}  // namespace

void draw_columns(std::uint64_t seed, std::uint64_t first, std::size_t n,
                  std::span<float> columns) {
  for (std::size_t at = 0; at < columns.size(); at += n) {
    const RandomKey key(random_bits(seed, first + at / n), 0);
    for (std::size_t i = 0; i < n; ++i)
      columns[at + i] = 2 * random_unit(key, static_cast<std::uint32_t>(i)) - 1;
  }
}

void orthogonalise(std::span<float> columns, std::size_t n, std::uint64_t seed,
                   std::uint64_t first) {
  std::vector<double> work(columns.begin(), columns.end());
  for (std::size_t at = 0; at * n < work.size(); ++at) {
    if (make_orthogonal(work.data(), n, at)) continue;
    const std::span<float> column = columns.subspan(at * n, n);
    draw_columns(seed, first + at, n, column);
    std::ranges::copy(column, work.begin() + static_cast<std::ptrdiff_t>(at * n));
    if (!make_orthogonal(work.data(), n, at)) std::fill_n(work.data() + at * n, n, 0.0);
  }
  std::ranges::transform(work, columns.begin(),
                         [](double value) { return static_cast<float>(value); });
}

}  // namespace gradwire::lossy
