#include "lossy/quantise/narrow.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/clones.h"
#include "base/half.h"

namespace gradwire::lossy {
namespace {

constexpr float kLargestBf16 = 0x1.fep127F;
constexpr float kLargestF16 = 65504;

/// To -largest .. largest. Integers: with floats GCC makes branches of it.
inline float clipped(float value, float largest) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::int32_t size =
      std::min(static_cast<std::int32_t>(bits & 0x7fffffff), std::bit_cast<std::int32_t>(largest));
  return std::bit_cast<float>((bits & 0x80000000) | static_cast<std::uint32_t>(size));
}

/// Floats of 8 bits: kFraction bits of fraction, exponents biased by kBias.
template <unsigned kFraction, unsigned kBias>
struct Octet {
  static constexpr unsigned kShift = 23 - kFraction;
  static constexpr std::uint32_t kRebias = (127 - kBias) << 23;
  static constexpr std::int32_t kNormal = static_cast<std::int32_t>((128 - kBias) << 23);
  static constexpr float kStep = 1.0F / static_cast<float>(1u << (kBias + kFraction - 1));
  static constexpr float kMagic = kStep * 0x1p23F;  ///< floats beside it have steps of kStep

  /// To the nearest, ties to even; the value is at most the type's largest.
  static std::uint8_t encode(float value) noexcept {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = bits & 0x7fffffff;
    const auto order = static_cast<std::int32_t>(magnitude);
    const float small = std::bit_cast<float>(choose(order < kNormal, magnitude, 0));
    const float stepped = (small + kMagic) - kMagic;
    const std::uint32_t half = (1u << (kShift - 1)) - 1 + (magnitude >> kShift & 1);
    const std::uint32_t normal = (magnitude + half - kRebias) >> kShift;
    const auto subnormal =
        static_cast<std::uint32_t>(static_cast<std::int32_t>(stepped * (1 / kStep)));
    const std::uint32_t code = choose(order < kNormal, subnormal, normal);
    return static_cast<std::uint8_t>((bits >> 24 & 0x80) | code);
  }

  static float decode(std::uint8_t symbol) noexcept {
    const std::int32_t order = symbol & 0x7f;
    const auto code = static_cast<std::uint32_t>(order);
    const auto small = std::bit_cast<std::uint32_t>(static_cast<float>(order) * kStep);
    std::uint32_t wide = (code << kShift) + kRebias;
    wide = choose(order < (1 << kFraction), small, wide);
    if constexpr (kFraction == 3) wide = choose(order == 0x7f, 0x7fc00000, wide);
    if constexpr (kFraction == 2) wide = choose(order >= 0x7c, wide | 0x7f800000, wide);
    return std::bit_cast<float>(std::uint32_t{symbol} >> 7 << 31 | wide);
  }
};
using E4M3 = Octet<3, 7>;
using E5M2 = Octet<2, 15>;
constexpr float kLargestE4M3 = 448;
constexpr float kLargestE5M2 = 57344;

template <typename Type>
GRADWIRE_CLONES void octets(const float* values, std::size_t n, float scale, float largest,
                            std::uint8_t* symbols) noexcept {
  for (std::size_t i = 0; i < n; ++i)
    symbols[i] = Type::encode(clipped(values[i] / scale, 1.0F) * largest);
}

template <typename Type>
GRADWIRE_CLONES void restore_octets(const std::uint8_t* symbols, std::size_t n, float scale,
                                    float largest, float* values) noexcept {
  for (std::size_t i = 0; i < n; ++i) values[i] = Type::decode(symbols[i]) / largest * scale;
}

GRADWIRE_CLONES void powers(const float* values, std::size_t n, const RandomKey& given,
                            std::uint32_t first, std::uint16_t* symbols) noexcept {
  const RandomKey key = given;
  for (std::size_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    // A carry out of the fraction, which is m / 2^23, has that probability.
    const std::uint32_t random = element_bits(key, first + static_cast<std::uint32_t>(i)) >> 9;
    const auto exponent = static_cast<std::int32_t>(((bits & 0x7fffffff) + random) >> 23);
    symbols[i] = static_cast<std::uint16_t>((bits >> 31 << 8) |
                                            static_cast<std::uint32_t>(std::min(exponent, 254)));
  }
}

GRADWIRE_CLONES void restore_powers(const std::uint16_t* symbols, std::size_t n,
                                    float* values) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t symbol = symbols[i];
    values[i] = std::bit_cast<float>((symbol >> 8 & 1) << 31 | (symbol & 0xff) << 23);
  }
}

GRADWIRE_CLONES void brain_floats(const float* values, std::size_t n,
                                  std::uint16_t* symbols) noexcept {
  for (std::size_t i = 0; i < n; ++i)
    symbols[i] = gradwire::to_bf16(clipped(values[i], kLargestBf16));
}
GRADWIRE_CLONES void restore_brain_floats(const std::uint16_t* symbols, std::size_t n,
                                          float* values) noexcept {
  for (std::size_t i = 0; i < n; ++i) values[i] = gradwire::from_bf16(symbols[i]);
}
GRADWIRE_CLONES void halves(const float* values, std::size_t n, std::uint16_t* symbols) noexcept {
  for (std::size_t i = 0; i < n; ++i)
    symbols[i] = gradwire::to_f16(clipped(values[i], kLargestF16));
}
GRADWIRE_CLONES void restore_halves(const std::uint16_t* symbols, std::size_t n,
                                    float* values) noexcept {
  for (std::size_t i = 0; i < n; ++i) values[i] = gradwire::from_f16(symbols[i]);
}

}  // namespace

void to_powers(const float* values, std::size_t n, const RandomKey& key, std::uint32_t first,
               std::uint16_t* symbols) noexcept {
  powers(values, n, key, first, symbols);
}
void from_powers(const std::uint16_t* symbols, std::size_t n, float* values) noexcept {
  restore_powers(symbols, n, values);
}
void to_bf16(const float* values, std::size_t n, std::uint16_t* symbols) noexcept {
  brain_floats(values, n, symbols);
}
void from_bf16(const std::uint16_t* symbols, std::size_t n, float* values) noexcept {
  restore_brain_floats(symbols, n, values);
}
void to_f16(const float* values, std::size_t n, std::uint16_t* symbols) noexcept {
  halves(values, n, symbols);
}
void from_f16(const std::uint16_t* symbols, std::size_t n, float* values) noexcept {
  restore_halves(symbols, n, values);
}

void to_e4m3(const float* values, std::size_t n, float scale, std::uint8_t* symbols) noexcept {
  if (scale == 0) return std::fill_n(symbols, n, 0), void();
  octets<E4M3>(values, n, scale, kLargestE4M3, symbols);
}
void from_e4m3(const std::uint8_t* symbols, std::size_t n, float scale, float* values) noexcept {
  restore_octets<E4M3>(symbols, n, scale, kLargestE4M3, values);
}
void to_e5m2(const float* values, std::size_t n, float scale, std::uint8_t* symbols) noexcept {
  if (scale == 0) return std::fill_n(symbols, n, 0), void();
  octets<E5M2>(values, n, scale, kLargestE5M2, symbols);
}
void from_e5m2(const std::uint8_t* symbols, std::size_t n, float scale, float* values) noexcept {
  restore_octets<E5M2>(symbols, n, scale, kLargestE5M2, values);
}

}  // namespace gradwire::lossy
