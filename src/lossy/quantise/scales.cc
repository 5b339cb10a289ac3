#include "lossy/quantise/scales.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/clones.h"

namespace gradwire::lossy {
namespace {

constexpr std::size_t kLanes = 8;  ///< sums side by side, so that no order is lost to vectors

template <typename Term>
inline double sum_in_lanes(const float* values, std::size_t n, const Term& term) noexcept {
  double lanes[kLanes] = {};
  const std::size_t whole = n - n % kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(values[i + lane]);
  for (std::size_t i = whole; i < n; ++i) lanes[i - whole] += term(values[i]);
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

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
  return sum_in_lanes(values, n, [](float value) { return double{value} * double{value}; });
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
