#include "lossy/quantise/scales.h"

#include <cmath>

#include "base/clones.h"
#include "base/lane_sum.h"

namespace gradwire::lossy {
namespace {

GRADWIRE_CLONES double magnitudes(const float* values, std::size_t n) noexcept {
  return sum_in_lanes(values, n, [](float value) { return double{std::fabs(value)}; });
}

GRADWIRE_CLONES double squares(const float* values, std::size_t n) noexcept {
  return sum_of_squares_in_lanes(values, n);
}

}  // namespace

double sum_of_magnitudes(const float* values, std::size_t n) noexcept {
  return magnitudes(values, n);
}
double sum_of_squares(const float* values, std::size_t n) noexcept { return squares(values, n); }

}  // namespace gradwire::lossy
