#include "lossy/gennorm/model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "base/portable_math.h"
#include "lossy/gennorm/distribution.h"

namespace gradwire::lossy {
namespace {

double to_bits(double nats) noexcept { return nats / std::numbers::ln2; }

double sum_of(std::span<const std::uint64_t> numbers) noexcept {
  return static_cast<double>(std::accumulate(numbers.begin(), numbers.end(), std::uint64_t{0}));
}

std::uint64_t to_weight(double probability) noexcept {
  return static_cast<std::uint64_t>(probability * static_cast<double>(kModelTotal) + 0.5) + 1;
}

/// Where a search for a better model is.
struct Place {
  int row;
  int spread;  ///< sixteenths of an octave from the first
  int zeros;
};
using Move = std::array<int, 3>;
constexpr Move kMoves[] = {{1, 0, 0},  {-1, 0, 0}, {0, 1, 0}, {0, -1, 0},
                           {1, -1, 0}, {-1, 1, 0}, {0, 0, 1}, {0, 0, -1}};

Place moved(const Place& place, const Move& move, int step) noexcept {
  return {std::clamp(place.row + move[0] * step, 0, static_cast<int>(kBetaRows) - 1),
          std::clamp(place.spread + move[1] * step, -64, 64),
          std::clamp(place.zeros + move[2] * step * 128, 0, 65535)};
}

GennormModel at_place(const Place& place, const GennormModel& base) noexcept {
  GennormModel model = base;
  model.code_row = static_cast<std::uint8_t>(place.row);
  model.zeros = static_cast<std::uint16_t>(place.zeros);
  model.spread = static_cast<float>(double{base.spread} * power(2, place.spread / 16.0));
  return model;
}

std::uint8_t minus_share(std::span<const std::uint64_t> counts, const GennormModel& model) {
  const std::size_t n = counts.size();
  const double minus = sum_of(counts.first(n / 2));
  const double others = n % 2 == 1 ? minus + sum_of(counts.last(n / 2))
                                   : sum_of(counts) * (1 - model.zeros / 65535.0);
  if (!(others > 0)) return 128;
  return static_cast<std::uint8_t>(std::min(256 * minus / others + 0.5, 255.0));
}

}  // namespace

ValueModel value_model(const GennormModel& model) {
  check_model(model);
  return {beta_of_row(model.code_row), double{model.spread}, model.zeros / 65535.0,
          model.minus / 256.0};
}

std::vector<std::uint64_t> symbol_weights(std::span<const float> levels, const ValueModel& model) {
  const std::size_t n = levels.size();
  const std::size_t half = n / 2;
  const double alpha = model.spread * unit_alpha(model.beta);
  const bool has_zero = n % 2 == 1;
  std::vector<std::uint64_t> weights(n);
  double from = 0;
  for (std::size_t i = half; i < n; ++i) {
    const double to = i + 1 == n ? std::numeric_limits<double>::infinity()
                                 : 0.5 * (double{levels[i]} + double{levels[i + 1]}) / alpha;
    const double both = (1 - model.zeros) * part_of_moment(model.beta, 0, from, to);
    const bool is_zero = has_zero && i == half;
    weights[i] = to_weight(both * (is_zero ? 1 : 1 - model.minus) + (i == half ? model.zeros : 0));
    if (!is_zero) weights[n - 1 - i] = to_weight(both * model.minus);
    from = to;
  }
  return weights;
}

Counts count_symbols(std::span<const std::uint8_t> symbols, unsigned alphabet) {
  Counts counts(alphabet);
  for (const std::uint8_t symbol : symbols) ++counts[symbol];
  return counts;
}

double entropy_bits(std::span<const std::uint64_t> counts) noexcept {
  const double total = sum_of(counts);
  double nats = 0;
  for (const std::uint64_t count : counts) {
    const auto times = static_cast<double>(count);
    if (count != 0) nats += times * natural_log(total / times);
  }
  return total == 0 ? 0 : to_bits(nats / total);
}

double coded_bits(std::span<const std::uint64_t> counts,
                  std::span<const std::uint64_t> weights) noexcept {
  const double total = sum_of(counts);
  const double all = sum_of(weights);
  double nats = 0;
  for (std::size_t i = 0; i < counts.size(); ++i)
    nats += static_cast<double>(counts[i]) * natural_log(all / static_cast<double>(weights[i]));
  return total == 0 ? 0 : to_bits(nats / total);
}

void refine_model(std::span<const float> levels, std::span<const std::uint64_t> counts,
                  GennormModel& model) {
  if (sum_of(counts) == 0) return;
  GennormModel base = model;
  base.minus = minus_share(counts, model);
  const auto bits_at = [&](const Place& place) {
    return coded_bits(counts, symbol_weights(levels, value_model(at_place(place, base))));
  };
  Place at{model.code_row, 0, model.zeros};
  double least = bits_at(at);
  for (int step = 8; step > 0; step /= 2) {
    for (bool better = true; better;) {
      better = false;
      for (const Move& move : kMoves) {
        const Place there = moved(at, move, step);
        const double bits = bits_at(there);
        if (!(bits < least)) continue;
        least = bits;
        at = there;
        better = true;
      }
    }
  }
  model = at_place(at, base);
}

}  // namespace gradwire::lossy
