// Sums of many terms, in one order that vector units keep.
// In: floats and what each contributes.
// Out: the sum in double: eight sums side by side, added in pairs at the end.
// Assumes: nothing. The same bits on every CPU and with every width of vectors.
#pragma once

#include <cstddef>

namespace gradwire {

template <typename Term>
inline double sum_in_lanes(const float* values, std::size_t n, const Term& term) noexcept {
  constexpr std::size_t kLanes = 8;
  double lanes[kLanes] = {};
  const std::size_t whole = n - n % kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(values[i + lane]);
  for (std::size_t i = whole; i < n; ++i) lanes[i - whole] += term(values[i]);
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

/// Of squares; infinite or NaN if and only if a value is.
inline double sum_of_squares_in_lanes(const float* values, std::size_t n) noexcept {
  return sum_in_lanes(values, n, [](float value) { return double{value} * double{value}; });
}

}  // namespace gradwire
