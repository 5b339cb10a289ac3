#include "lossy/thc/loops.h"

#include <algorithm>

#include "base/clones.h"
#include "base/lane_sum.h"

namespace gradwire::lossy {
namespace {

constexpr std::size_t kStep = 256;  ///< values from loop to loop, which stay in the cache

/// Places on the grid 0 .. top and their cells.
inline void find_places(const float* values, std::size_t n, const IndexRun& run, float* places,
                        std::uint32_t* cells) noexcept {
  const float norm = run.norm;
  const float per_norm = run.per_norm;
  const std::int32_t last = run.top - 1;
  const auto top = static_cast<float>(run.top);
  const float middle = top / 2;
  for (std::size_t i = 0; i < n; ++i) {
    // A quotient first: it cannot overflow where the norm is the largest of all ranks.
    float place = values[i] / norm * per_norm + middle;
    place = place > 0 ? place : 0;
    place = place < top ? place : top;
    places[i] = place;
    cells[i] = static_cast<std::uint32_t>(std::min(static_cast<std::int32_t>(place), last));
  }
}

/// Up with the probability (place - low) / gap.
inline void choose(const float* places, const std::uint32_t* words, std::size_t n,
                   const RandomKey& given, std::uint32_t first, std::uint8_t* indices) noexcept {
  const RandomKey key = given;
  for (std::size_t i = 0; i < n; ++i) {
    const auto low = static_cast<float>(static_cast<std::int32_t>(words[i] >> 8 & 0xff));
    const auto gap = static_cast<float>(static_cast<std::int32_t>(words[i] >> 16));
    const float draw = random_unit(key, first + static_cast<std::uint32_t>(i)) * gap;
    indices[i] = static_cast<std::uint8_t>((words[i] & 0xff) + (draw < places[i] - low ? 1 : 0));
  }
}

GRADWIRE_CLONES void find_indices(const float* values, const IndexRun& run,
                                  const std::uint32_t* cells, std::uint8_t* indices) noexcept {
  float places[kStep];
  std::uint32_t words[kStep];
  for (std::size_t at = 0; at < run.n; at += kStep) {
    const std::size_t n = std::min(kStep, run.n - at);
    find_places(values + at, n, run, places, words);
    for (std::size_t i = 0; i < n; ++i) words[i] = cells[words[i]];
    choose(places, words, n, run.key, run.first + static_cast<std::uint32_t>(at), indices + at);
  }
}

template <typename Sum>
GRADWIRE_CLONES void restore(const Sum* sums, std::size_t n, std::uint32_t middle, float factor,
                             float* values) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    const auto distance = static_cast<std::int32_t>(2u * sums[i] - middle);
    values[i] = static_cast<float>(distance) * factor;
  }
}

GRADWIRE_CLONES double squares(const float* values, std::size_t n) noexcept {
  return sum_of_squares_in_lanes(values, n);
}

template <typename Integer>
GRADWIRE_CLONES Integer largest(const Integer* integers, std::size_t n) noexcept {
  Integer most = 0;
  for (std::size_t i = 0; i < n; ++i) most = std::max(most, integers[i]);
  return most;
}

}  // namespace

void to_indices(const float* values, const IndexRun& run, const std::uint32_t* cells,
                std::uint8_t* indices) noexcept {
  find_indices(values, run, cells, indices);
}

void from_sums(const std::uint32_t* sums, std::size_t n, std::uint32_t middle, float factor,
               float* values) noexcept {
  restore(sums, n, middle, factor, values);
}
void from_sums(const std::uint8_t* sums, std::size_t n, std::uint32_t middle, float factor,
               float* values) noexcept {
  restore(sums, n, middle, factor, values);
}

double squares_of(const float* values, std::size_t n) noexcept { return squares(values, n); }

std::uint32_t largest_of(const std::uint8_t* integers, std::size_t n) noexcept {
  return largest(integers, n);
}
std::uint32_t largest_of(const std::uint32_t* integers, std::size_t n) noexcept {
  return largest(integers, n);
}

}  // namespace gradwire::lossy
