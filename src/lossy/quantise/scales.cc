#include "lossy/quantise/scales.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/clones.h"
#include "base/lane_sum.h"

namespace gradwire::lossy {
namespace {

GRADWIRE_CLONES std::int32_t largest(const float* values, std::size_t n) noexcept {
  std::int32_t most = 0;
  for (std::size_t i = 0; i < n; ++i)
    most = std::max(most, std::bit_cast<std::int32_t>(values[i]) & 0x7fffffff);
  return most;
}

GRADWIRE_CLONES double magnitudes(const float* values, std::size_t n) noexcept {
  return sum_in_lanes(values, n, [](float value) { return double{std::fabs(value)}; });
}

GRADWIRE_CLONES double squares(const float* values, std::size_t n) noexcept {
  return sum_of_squares_in_lanes(values, n);
}

}  // namespace

std::uint32_t largest_magnitude_bits(const float* values, std::size_t n) noexcept {
  return static_cast<std::uint32_t>(largest(values, n));
}
double sum_of_magnitudes(const float* values, std::size_t n) noexcept {
  return magnitudes(values, n);
}
double sum_of_squares(const float* values, std::size_t n) noexcept { return squares(values, n); }

}  // namespace gradwire::lossy
