#include "lossy/gennorm/loops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/clones.h"
#include "base/half.h"
#include "base/lane_sum.h"

namespace gradwire::lossy {
namespace {

constexpr auto kInfinityBits = std::bit_cast<std::int32_t>(std::numeric_limits<float>::infinity());
constexpr std::size_t kBlock = 256;

inline std::int32_t magnitude_bits(float value) noexcept {
  return std::bit_cast<std::int32_t>(value) & 0x7fffffff;
}

GRADWIRE_CLONES std::int32_t largest_bits(const float* values, std::size_t n) noexcept {
  std::int32_t most = 0;
  for (std::size_t i = 0; i < n; ++i) most = std::max(most, magnitude_bits(values[i]));
  return most;
}

GRADWIRE_CLONES std::size_t count_nonzero(const float* values, std::size_t n) noexcept {
  std::size_t count = 0;
  for (std::size_t i = 0; i < n;) {
    const std::size_t end = std::min(n, i + (std::size_t{1} << 30));
    std::uint32_t part = 0;
    for (; i < end; ++i) part += magnitude_bits(values[i]) != 0 ? 1u : 0u;
    count += part;
  }
  return count;
}

GRADWIRE_CLONES double sum_of_magnitudes(const float* values, std::size_t n) noexcept {
  return sum_in_lanes(values, n, [](float value) { return double{std::fabs(value)}; });
}

GRADWIRE_CLONES double sum_of_squares(const float* values, std::size_t n) noexcept {
  return sum_of_squares_in_lanes(values, n);
}

struct Search {
  const std::int32_t* bounds;
  std::int32_t first_step;
  std::int32_t positive;
  std::int32_t negative;
};

/// A round of the search for all values of a block, then the next: loops that become vectors.
GRADWIRE_CLONES void search_blocks(const float* values, std::size_t n, float scale,
                                   const Search& given, std::uint8_t* symbols) noexcept {
  const Search search = given;
  std::int32_t sizes[kBlock];
  std::int32_t places[kBlock];
  for (std::size_t at = 0; at < n; at += kBlock) {
    const std::size_t count = std::min(kBlock, n - at);
    for (std::size_t i = 0; i < count; ++i) {
      sizes[i] = magnitude_bits(values[at + i] / scale);
      places[i] = 0;
    }
    for (std::int32_t step = search.first_step; step > 0; step >>= 1)
      for (std::size_t i = 0; i < count; ++i)
        places[i] += step & -std::int32_t{sizes[i] >= search.bounds[places[i] + step - 1]};
    for (std::size_t i = 0; i < count; ++i) {
      const auto bits = std::bit_cast<std::int32_t>(values[at + i]);
      const std::int32_t minus = bits >> 31 & -std::int32_t{(bits & 0x7fffffff) != 0};
      const std::int32_t base = search.positive + ((search.negative - search.positive) & minus);
      const std::int32_t symbol = base + ((places[i] ^ minus) - minus);
      symbols[at + i] = static_cast<std::uint8_t>(symbol);
    }
  }
}

GRADWIRE_CLONES void float_codes(const float* values, std::size_t n, const FloatType& given,
                                 std::uint8_t* symbols) noexcept {
  const FloatType type = given;
  const unsigned shift = 23 - type.fraction_bits;
  const auto half = static_cast<std::int32_t>(1u << (type.exponent_bits + type.fraction_bits)) - 1;
  // In units of the least number, by two factors, as one may be no float.
  const int first = -type.unit_exponent / 2;
  const auto one = std::bit_cast<float>(static_cast<std::uint32_t>(127 + first) << 23);
  const auto two =
      std::bit_cast<float>(static_cast<std::uint32_t>(127 - type.unit_exponent - first) << 23);
  // The code of a normal number is its exponent and fraction less those of the least normal one.
  const std::uint32_t least_normal = (127 + type.fraction_bits) << 23;
  const auto order = static_cast<std::int32_t>(least_normal);
  const std::uint32_t rebias = ((127 + type.fraction_bits - 1) << 23) >> shift;
  constexpr float kMagic = 0x1p23F;  // floats beside it have steps of 1
  for (std::size_t i = 0; i < n; ++i) {
    const float scaled = std::fabs(values[i]) * one * two;
    const auto bits = std::bit_cast<std::uint32_t>(scaled);
    const float small =
        std::bit_cast<float>(choose(static_cast<std::int32_t>(bits) < order, bits, 0));
    const auto subnormal = static_cast<std::int32_t>((small + kMagic) - kMagic);
    const std::uint32_t rounded = (bits + (1u << (shift - 1)) - 1 + (bits >> shift & 1)) >> shift;
    const auto normal = static_cast<std::int32_t>(rounded - rebias);
    const auto code = static_cast<std::int32_t>(choose(static_cast<std::int32_t>(bits) < order,
                                                       static_cast<std::uint32_t>(subnormal),
                                                       static_cast<std::uint32_t>(normal)));
    const std::int32_t clipped = std::min(code, half);
    const std::int32_t minus = std::bit_cast<std::int32_t>(values[i]) >> 31;
    symbols[i] = static_cast<std::uint8_t>(half + ((clipped ^ minus) - minus));
  }
}

GRADWIRE_CLONES void restore(const std::uint8_t* symbols, std::size_t n, const float* levels,
                             float scale, float* values) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(levels[symbols[i]] * scale);
    const std::int32_t size =
        std::min(static_cast<std::int32_t>(bits & 0x7fffffff), kInfinityBits - 1);
    values[i] = std::bit_cast<float>((bits & 0x80000000) | static_cast<std::uint32_t>(size));
  }
}

}  // namespace

BucketSums measure(const float* values, std::size_t n) noexcept {
  return {count_nonzero(values, n), sum_of_magnitudes(values, n), sum_of_squares(values, n),
          std::bit_cast<float>(largest_bits(values, n))};
}

NearestLevel::NearestLevel(std::span<const float> levels) {
  const std::size_t n = levels.size();
  const std::size_t half = n / 2;
  positive_ = static_cast<std::int32_t>(half);
  negative_ = positive_ - (n % 2 == 0 ? 1 : 0);
  bounds_.fill(kInfinityBits);
  const std::size_t count = n - half - 1;  // bounds between magnitudes
  for (std::size_t i = 0; i < count; ++i)
    bounds_[i] = std::bit_cast<std::int32_t>(
        static_cast<float>(0.5 * (double{levels[half + i]} + double{levels[half + i + 1]})));
  first_step_ = static_cast<std::int32_t>(std::bit_floor(count));
}

void NearestLevel::quantise(const float* values, std::size_t n, float scale,
                            std::uint8_t* symbols) const noexcept {
  search_blocks(values, n, scale, {bounds_.data(), first_step_, positive_, negative_}, symbols);
}

void to_float_levels(const float* values, std::size_t n, const FloatType& type,
                     std::uint8_t* symbols) noexcept {
  float_codes(values, n, type, symbols);
}

void from_levels(const std::uint8_t* symbols, std::size_t n, std::span<const float> levels,
                 float scale, float* values) noexcept {
  restore(symbols, n, levels.data(), scale, values);
}

}  // namespace gradwire::lossy
