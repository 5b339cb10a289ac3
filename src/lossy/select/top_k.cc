#include <algorithm>
#include <bit>
#include <cmath>

#include "base/counter_random.h"
#include "lossy/select/gather.h"
#include "lossy/select/magnitude.h"
#include "lossy/select/parts.h"

namespace gradwire::lossy {
namespace {

constexpr int kMostRounds = 10;

/// A magnitude that `count` of the values reach, most likely; 0 where the sample cannot tell.
std::uint32_t likely_low(std::span<const float> values, const SelectOptions& options,
                         Words& sample) {
  if (!sample_magnitudes(values, options.count, options.seed, sample)) return 0;
  const double share = static_cast<double>(options.count) / static_cast<double>(values.size());
  const double expected = share * static_cast<double>(sample.size());
  const auto rank = static_cast<std::size_t>(expected + 4 * std::sqrt(expected) + 8);
  return rank < sample.size() ? largest_at(sample, rank) : 0;
}

/// Values that are sampled: the share, and enough for two of the selected.
std::size_t sample_size(std::size_t n, const SelectOptions& options) {
  const double by_share = std::ceil(options.sample_share * static_cast<double>(n));
  const double by_count =
      std::ceil(2 * static_cast<double>(n) / static_cast<double>(options.count));
  const double larger = std::max(by_share, by_count);
  return larger < static_cast<double>(n) ? static_cast<std::size_t>(larger) : n;
}

/// Every stride-th value from a random start, `size` of them or some more. The stride is a multiple
/// of 32 and 1, or odd where that is too much.
void sample_strided(std::span<const float> values, std::size_t size, std::uint64_t seed,
                    Words& sample) {
  const std::size_t most = values.size() / size;
  const std::size_t stride = most > 32 ? (most - 1) / 32 * 32 + 1 : (most - 1) | 1;
  const auto start = random_below(seed, 0, static_cast<std::uint32_t>(stride));
  sample.clear();
  for (std::size_t i = start; i < values.size(); i += stride) {
    sample.push_back(magnitude(values[i]));
  }
}

/// Four fifths of a magnitude; of what is not finite, of the largest finite one.
std::uint32_t lowered(std::uint32_t low) {
  const auto bound = std::bit_cast<float>(std::min(low, kInfinity - 1));
  return magnitude(bound * 0.8F);
}

}  // namespace

void select_top_k(std::span<const float> values, const SelectOptions& options,
                  SelectScratch& scratch, Indices& indices) {
  const std::uint32_t low = likely_low(values, options, scratch.magnitudes);
  gather(values, low, indices);
  if (indices.size() < options.count) gather(values, 0, indices);
  keep_largest(values, options.count, scratch, indices);
}

void select_sampled_top_k(std::span<const float> values, const SelectOptions& options,
                          SelectScratch& scratch, Indices& indices) {
  const std::size_t size = sample_size(values.size(), options);
  if (size == values.size()) return select_top_k(values, options, scratch, indices);
  Words& sample = scratch.magnitudes;
  sample_strided(values, size, options.seed, sample);
  const double share = static_cast<double>(options.count) / static_cast<double>(values.size());
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sample.size())));
  std::uint32_t low = largest_at(sample, std::clamp<std::size_t>(rank, 1, sample.size()));
  gather(values, low, indices);
  for (int round = 0; round < kMostRounds && is_scarce(indices.size(), options.count); ++round) {
    low = lowered(low);
    gather(values, low, indices);
  }
  if (is_scarce(indices.size(), options.count)) {
    return select_top_k(values, options, scratch, indices);
  }
  if (is_surplus(indices.size(), options.count)) {
    keep_largest(values, options.count, scratch, indices);
  }
}

}  // namespace gradwire::lossy
