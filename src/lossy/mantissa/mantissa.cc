#include "lossy/mantissa/mantissa.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

#include "base/clones.h"
#include "base/fail.h"
#include "base/half.h"

namespace gradwire::lossy {
namespace {

constexpr std::uint32_t kInfinityBits = 0x7f800000;
constexpr unsigned kFractionBits = 23;

/// By exponent field: the bits that stay.
using Masks = std::array<std::uint32_t, 256>;

GRADWIRE_CLONES std::uint32_t largest_magnitude(const float* values, std::size_t n) noexcept {
  std::int32_t most = 0;
  for (std::size_t i = 0; i < n; ++i)
    most = std::max(most, std::bit_cast<std::int32_t>(values[i]) & 0x7fffffff);
  return static_cast<std::uint32_t>(most);
}

/// Pruned values keep the sign; the exponent field 0, subnormals and zeros, all bits.
Masks masks_of(const MantissaOptions& options, unsigned largest) noexcept {
  Masks masks{};
  for (unsigned exponent = 0; exponent <= largest; ++exponent) {
    const int bits = kept_bits(options, largest - exponent);
    const unsigned kept = exponent == 0 ? kFractionBits : static_cast<unsigned>(bits);
    masks[exponent] = bits < 0 ? 0x80000000 : ~std::uint32_t{0} << (kFractionBits - kept);
  }
  return masks;
}

GRADWIRE_CLONES void round_all(const float* values, std::size_t n, const Masks& masks,
                               float* out) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    const std::uint32_t magnitude = bits & 0x7fffffff;
    const std::uint32_t mask = masks[magnitude >> kFractionBits];
    const std::uint32_t unit = 0 - mask;  // of the last bit that stays; 2^31 for a pruned value
    const std::uint32_t odd = std::uint32_t{(magnitude & unit) != 0};
    // Half a unit less one, and one more if the last bit is odd: a carry rounds up.
    const std::uint32_t bias = (unit >> 1) - std::uint32_t{unit > 1} + (odd & -(unit > 1));
    const std::uint32_t rounded = (magnitude + bias) & mask;
    const auto is_infinite =
        static_cast<std::int32_t>(rounded) >= static_cast<std::int32_t>(kInfinityBits);
    const std::uint32_t size = choose(is_infinite, magnitude & mask, rounded);
    out[i] = std::bit_cast<float>((bits & 0x80000000) | (size & 0x7fffffff));
  }
}

}  // namespace

void check_options(const MantissaOptions& options) {
  constexpr auto kInvalid = ErrorKind::invalid_argument;
  if (options.top_bits > kFractionBits)
    fail(kInvalid, "mantissa: top_bits must be 0 to 23, not {}", options.top_bits);
  if (options.top_octaves > 255)
    fail(kInvalid, "mantissa: top_octaves must be 0 to 255, not {}", options.top_octaves);
  if (!(options.slope >= 0 && options.slope <= 23))
    fail(kInvalid, "mantissa: slope must be 0 to 23 bits an octave, not {}", options.slope);
  if (options.fewest_bits > options.top_bits)
    fail(kInvalid, "mantissa: fewest_bits must be at most top_bits, {}, not {}", options.top_bits,
         options.fewest_bits);
  if (options.kept_octaves > 255)
    fail(kInvalid, "mantissa: kept_octaves must be 1 to 255, or 0 for all, not {}",
         options.kept_octaves);
}

int kept_bits(const MantissaOptions& options, unsigned octaves) noexcept {
  if (options.kept_octaves != 0 && octaves >= options.kept_octaves) return -1;
  const unsigned below = octaves - std::min(octaves, options.top_octaves);
  const double fewer = std::floor(double{options.slope} * below);
  const double bits = options.top_bits - std::min(fewer, double{kFractionBits});
  return std::max(static_cast<int>(bits), static_cast<int>(options.fewest_bits));
}

bool round_mantissas(std::span<const float> values, const MantissaOptions& options,
                     std::span<float> out) {
  check_options(options);
  if (out.size() != values.size())
    fail(ErrorKind::invalid_argument, "mantissa: {} values do not fit {} places", values.size(),
         out.size());
  const std::uint32_t largest = largest_magnitude(values.data(), values.size());
  if (largest >= kInfinityBits) return false;
  const Masks masks = masks_of(options, largest >> kFractionBits);
  round_all(values.data(), values.size(), masks, out.data());
  return true;
}

}  // namespace gradwire::lossy
