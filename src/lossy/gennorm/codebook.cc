#include "lossy/gennorm/codebook.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lossy/gennorm/distribution.h"

namespace gradwire::lossy {

Levels uniform_levels(unsigned levels, double step) {
  Levels result(levels);
  const double middle = 0.5 * (levels - 1);
  for (unsigned i = 0; i < levels; ++i) result[i] = static_cast<float>((i - middle) * step);
  return result;
}

Levels float_levels(unsigned exponent_bits, unsigned fraction_bits) {
  const unsigned half = (1u << (exponent_bits + fraction_bits)) - 1;
  Levels result(2 * std::size_t{half} + 1);
  const unsigned hidden = 1u << fraction_bits;
  for (unsigned code = 0; code <= half; ++code) {
    const unsigned exponent = code >> fraction_bits;
    const unsigned fraction = code & (hidden - 1);
    const double size = exponent == 0 ? fraction
                                      : std::ldexp(static_cast<double>(hidden + fraction),
                                                   static_cast<int>(exponent) - 1);
    result[half + code] = static_cast<float>(size);
    result[half - code] = -static_cast<float>(size);
  }
  return result;
}

double expected_error(std::span<const float> levels, double beta) {
  const double alpha = unit_alpha(beta);
  double error = 0;
  for (std::size_t i = levels.size() / 2; i < levels.size(); ++i) {
    const double level = double{levels[i]} / alpha;
    const bool is_last = i + 1 == levels.size();
    const double from = i == 0 ? 0 : std::max((level + double{levels[i - 1]} / alpha) / 2, 0.0);
    const double to = is_last ? std::numeric_limits<double>::infinity()
                              : (level + double{levels[i + 1]} / alpha) / 2;
    error += part_of_moment(beta, 2, from, to) - 2 * level * part_of_moment(beta, 1, from, to) +
             level * level * part_of_moment(beta, 0, from, to);
  }
  return error * alpha * alpha;
}

}  // namespace gradwire::lossy
