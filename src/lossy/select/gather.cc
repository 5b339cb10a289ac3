#include "lossy/select/gather.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/clones.h"
#include "base/counter_random.h"
#include "lossy/select/magnitude.h"

namespace gradwire::lossy {
namespace {

constexpr std::size_t kGroup = 32;  // looked at together: most hold nothing when few are selected
constexpr std::size_t kBlock = 4096;
constexpr std::size_t kLine = 16;  // values that memory brings at once
constexpr std::size_t kLeastSample = std::size_t{1} << 17;
constexpr std::size_t kSampledSelected = 128;

/// Writes the index of each value of [begin, end) that is selected; room for all of them.
inline std::uint32_t* write_each(const float* values, std::size_t begin, std::size_t end,
                                 std::uint32_t low, std::uint32_t* dst) {
  for (std::size_t i = begin; i < end; ++i) {
    *dst = static_cast<std::uint32_t>(i);
    dst += magnitude(values[i]) >= low;
  }
  return dst;
}

/// The sign of (low - 1 - magnitude) tells, so that a group costs three operations a vector.
inline bool any_of_group(const float* values, std::int32_t below) {
  std::int32_t signs = 0;
  for (std::size_t j = 0; j < kGroup; ++j) {
    signs |= below - static_cast<std::int32_t>(magnitude(values[j]));
  }
  return signs < 0;
}

/// Indices of one block into `dst`, which has room for all of them and one more.
GRADWIRE_CLONES std::uint32_t* gather_block(const float* values, std::size_t begin, std::size_t end,
                                            std::uint32_t low, std::uint32_t* dst) {
  const auto below = static_cast<std::int32_t>(low) - 1;
  std::size_t i = begin;
  for (; i + kGroup <= end; i += kGroup) {
    if (any_of_group(values + i, below)) dst = write_each(values, i, i + kGroup, low, dst);
  }
  return write_each(values, i, end, low, dst);
}

GRADWIRE_CLONES void copy_magnitudes(const float* values, std::size_t n, std::uint32_t* dst) {
  for (std::size_t i = 0; i < n; ++i) dst[i] = magnitude(values[i]);
}

inline void copy_line(const float* values, std::uint32_t* dst) {
  for (std::size_t i = 0; i < kLine; ++i) dst[i] = magnitude(values[i]);
}

}  // namespace

void gather(std::span<const float> values, std::uint32_t low, Indices& indices) {
  std::size_t size = 0;
  indices.resize(indices.capacity());
  for (std::size_t begin = 0; begin < values.size(); begin += kBlock) {
    const std::size_t end = std::min(begin + kBlock, values.size());
    if (indices.size() < size + kBlock + 1) {
      indices.resize(size);  // a vector that grows copies what it holds
      indices.resize(std::max(size * 2, size + kBlock + 1));
    }
    std::uint32_t* const start = indices.data();
    size = static_cast<std::size_t>(gather_block(values.data(), begin, end, low, start + size) -
                                    start);
  }
  indices.resize(size);
}

void keep_largest(std::span<const float> values, std::size_t count, SelectScratch& scratch,
                  Indices& indices) {
  if (indices.size() <= count) return;
  if (count == 0) return indices.clear();
  Words& words = scratch.magnitudes;
  words.resize(indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i) words[i] = magnitude(values[indices[i]]);
  const std::uint32_t last = largest_at(words, count);
  std::size_t equal = static_cast<std::size_t>(
      std::count(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(count), last));
  std::size_t kept = 0;
  for (const std::uint32_t index : indices) {
    const std::uint32_t size = magnitude(values[index]);
    const bool tie = size == last && equal > 0;
    indices[kept] = index;
    kept += size > last || tie;
    equal -= tie;
  }
  indices.resize(kept);
}

bool is_scarce(std::size_t found, std::size_t count) {
  return static_cast<double>(found) < 0.8 * static_cast<double>(count);
}

bool is_surplus(std::size_t found, std::size_t count) {
  return static_cast<double>(found) > 1.3 * static_cast<double>(count);
}

bool sample_magnitudes(std::span<const float> values, std::size_t count, std::uint64_t seed,
                       Words& sample) {
  const std::size_t n = values.size();
  const std::size_t lines = std::max(kLeastSample, n / count * kSampledSelected) / kLine;
  const std::size_t width = n / lines;
  if (width <= kLine) {
    sample.resize(n);
    copy_magnitudes(values.data(), n, sample.data());
    return false;
  }
  sample.resize(lines * kLine);
  for (std::size_t s = 0; s < lines; ++s) {
    const std::size_t at = random_below(seed, s, static_cast<std::uint32_t>(width - kLine + 1));
    copy_line(values.data() + s * width + at, sample.data() + s * kLine);
  }
  return true;
}

std::uint32_t largest_at(Words& words, std::size_t rank) {
  const auto nth = words.begin() + static_cast<std::ptrdiff_t>(rank - 1);
  std::nth_element(words.begin(), nth, words.end(), std::greater<>());
  return *nth;
}

}  // namespace gradwire::lossy
