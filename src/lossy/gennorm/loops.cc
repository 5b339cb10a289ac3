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

/// The constants of a float type. Magnitudes are brought to units of its least number by two
/// factors, as one may be no float; what then overflows is above its largest.
struct FloatRounding {
  float first;
  float second;
  unsigned shift;             ///< fraction bits that go
  std::int32_t least_normal;  ///< as bits, in units
  std::int32_t largest;       ///< the same
  std::uint32_t rebias;       ///< bits >> shift of a normal number less its code

  explicit FloatRounding(const FloatType& type) noexcept {
    const int half = -type.unit_exponent / 2;
    first = std::bit_cast<float>(static_cast<std::uint32_t>(127 + half) << 23);
    second =
        std::bit_cast<float>(static_cast<std::uint32_t>(127 - type.unit_exponent - half) << 23);
    const unsigned fraction = type.fraction_bits;
    shift = 23 - fraction;
    least_normal = static_cast<std::int32_t>((127 + fraction) << 23);
    rebias = (126 + fraction) << fraction;
    const std::uint32_t most = (1u << (type.exponent_bits + fraction)) - 1;
    largest = static_cast<std::int32_t>((most + rebias) << shift);
  }

  std::uint32_t scaled(float value) const noexcept {
    return std::bit_cast<std::uint32_t>(std::fabs(value) * first * second);
  }
  /// Floats beside 2^23 have steps of 1, a unit.
  float subnormal(std::uint32_t scaled_bits) const noexcept {
    const bool is_small = static_cast<std::int32_t>(scaled_bits) < least_normal;
    return (std::bit_cast<float>(choose(is_small, scaled_bits, 0)) + 0x1p23F) - 0x1p23F;
  }
  /// With a carry into the exponent where that is nearest.
  std::uint32_t normal(std::uint32_t scaled_bits) const noexcept {
    return (scaled_bits + (1u << (shift - 1)) - 1 + (scaled_bits >> shift & 1)) >> shift;
  }
};

GRADWIRE_CLONES void float_codes(const float* values, std::size_t n, const FloatType& type,
                                 std::uint8_t* symbols) noexcept {
  const FloatRounding rounding(type);
  const auto half = static_cast<std::int32_t>(1u << (type.exponent_bits + type.fraction_bits)) - 1;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t bits = rounding.scaled(values[i]);
    const auto small = static_cast<std::int32_t>(rounding.subnormal(bits));
    const auto normal = static_cast<std::int32_t>(rounding.normal(bits) - rounding.rebias);
    const bool is_small = static_cast<std::int32_t>(bits) < rounding.least_normal;
    const auto code = static_cast<std::int32_t>(
        choose(is_small, static_cast<std::uint32_t>(small), static_cast<std::uint32_t>(normal)));
    const std::int32_t clipped = std::min(code, half);
    const std::int32_t minus = std::bit_cast<std::int32_t>(values[i]) >> 31;
    symbols[i] = static_cast<std::uint8_t>(half + ((clipped ^ minus) - minus));
  }
}

GRADWIRE_CLONES double float_errors(const float* values, std::size_t n,
                                    const FloatType& type) noexcept {
  const FloatRounding rounding(type);
  return sum_in_lanes(values, n, [rounding](float value) {
    const std::uint32_t bits = rounding.scaled(value);
    const auto small = std::bit_cast<std::uint32_t>(rounding.subnormal(bits));
    const bool is_small = static_cast<std::int32_t>(bits) < rounding.least_normal;
    const auto nearest =
        static_cast<std::int32_t>(choose(is_small, small, rounding.normal(bits) << rounding.shift));
    const float clipped = std::bit_cast<float>(std::min(nearest, rounding.largest));
    const double off = double{std::bit_cast<float>(bits)} - double{clipped};
    return off * off;
  });
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

double float_error(const float* values, std::size_t n, const FloatType& type) noexcept {
  return float_errors(values, n, type);
}

void from_levels(const std::uint8_t* symbols, std::size_t n, std::span<const float> levels,
                 float scale, float* values) noexcept {
  restore(symbols, n, levels.data(), scale, values);
}

}  // namespace gradwire::lossy
