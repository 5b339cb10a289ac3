#include "lossy/sketch/grid.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/clones.h"
#include "base/fail.h"
#include "base/magnitude.h"

namespace gradwire::lossy {
namespace {

constexpr std::int32_t kInfinity = 0x7f800000;
constexpr float kLargestFloat = std::numeric_limits<float>::max();
constexpr int kFinestExponent = -149;   // of the smallest subnormal float
constexpr int kCoarsestExponent = 127;  // of the largest power of two

/// Of the bits of magnitudes, the largest before clipping to `clip` comes back.
GRADWIRE_CLONES std::int32_t round_all(const float* values, std::size_t n, double per_step,
                                       std::int32_t clip, std::int32_t* integers) noexcept {
  // Added to a number below 2^51, it leaves the nearest integer in the low bits.
  constexpr double kToLowBits = 0x1.8p52;
  std::int32_t most = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<std::int32_t>(values[i]);
    const std::int32_t magnitude = bits & 0x7fffffff;
    most = std::max(most, magnitude);
    const double steps = double{std::bit_cast<float>(std::min(magnitude, clip))} * per_step;
    const auto rounded = static_cast<std::int32_t>(std::bit_cast<std::int64_t>(steps + kToLowBits));
    const std::int32_t sign = bits >> 31;  // 0 or -1
    integers[i] = (rounded ^ sign) - sign;
  }
  return most;
}

/// The largest magnitude before clipping comes back.
GRADWIRE_CLONES double restore_all(const std::int32_t* integers, std::size_t n, double step,
                                   double divisor, float* values) noexcept {
  constexpr double kLimit = kLargestFloat;
  double most = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double value = static_cast<double>(integers[i]) * step / divisor;
    const double magnitude = std::fabs(value);
    most = most > magnitude ? most : magnitude;
    values[i] = static_cast<float>(std::max(std::min(value, kLimit), -kLimit));
  }
  return most;
}

void check_call(std::size_t values, const IntegerGrid& grid, std::size_t integers) {
  if (values != integers) {
    fail(ErrorKind::invalid_argument, "grid: {} values and {} integers given, as many are needed",
         values, integers);
  }
  const bool in_range =
      grid.largest >= 1 && grid.largest <= static_cast<std::int32_t>(kMostOnGrid) &&
      grid.exponent >= kFinestExponent && grid.exponent <= kCoarsestExponent &&
      std::ldexp(static_cast<double>(grid.largest), grid.exponent) <= double{kLargestFloat};
  if (!in_range) {
    fail(ErrorKind::invalid_argument,
         "grid: {} steps of 2^{} given, 1 to {} of 2^{} or more whose product is a "
         "float are allowed",
         grid.largest, grid.exponent, kMostOnGrid, kFinestExponent);
  }
}

}  // namespace

std::int64_t measure_magnitude(std::span<const float> values) noexcept {
  return largest_magnitude_bits(values);
}

std::optional<IntegerGrid> grid_for(std::int64_t magnitude, std::uint32_t most) {
  if (most == 0 || most > kMostOnGrid) {
    fail(ErrorKind::invalid_argument, "grid: integers up to {} asked for, 1 to {} are allowed",
         most, kMostOnGrid);
  }
  if (magnitude < 0 || magnitude > 0x7fffffff) {
    fail(ErrorKind::invalid_argument, "grid: magnitude {} given, 0 to 2147483647 are allowed",
         magnitude);
  }
  if (magnitude >= kInfinity) return std::nullopt;
  const double value = double{std::bit_cast<float>(static_cast<std::int32_t>(magnitude))};
  const double steps = most;
  // magnitude < 2^(e + 1) and most >= 2^m, so that a step of 2^(e + 1 - m) is coarse enough.
  int exponent = kFinestExponent;
  if (value != 0) exponent = std::max(exponent, std::ilogb(value) + 1 - std::ilogb(steps));
  while (exponent > kFinestExponent && value <= std::ldexp(steps, exponent - 1)) --exponent;
  exponent = std::min(exponent, kCoarsestExponent);
  const double floats = std::ldexp(double{kLargestFloat}, -exponent);
  return IntegerGrid{exponent, static_cast<std::int32_t>(std::floor(std::min(steps, floats)))};
}

bool to_grid(std::span<const float> values, const IntegerGrid& grid,
             std::span<std::int32_t> integers) {
  check_call(values.size(), grid, integers.size());
  const auto clip =
      static_cast<float>(std::ldexp(static_cast<double>(grid.largest), grid.exponent));
  const std::int32_t most = round_all(values.data(), values.size(), std::ldexp(1.0, -grid.exponent),
                                      std::bit_cast<std::int32_t>(clip), integers.data());
  if (most < kInfinity) return true;
  std::ranges::fill(integers, 0);
  return false;
}

bool from_grid(std::span<const std::int32_t> integers, const IntegerGrid& grid,
               std::uint32_t divisor, std::span<float> values) {
  check_call(values.size(), grid, integers.size());
  if (divisor == 0)
    fail(ErrorKind::invalid_argument, "grid: divisor 0 given, 1 or more are allowed");
  return restore_all(integers.data(), integers.size(), std::ldexp(1.0, grid.exponent), divisor,
                     values.data()) <= double{kLargestFloat};
}

}  // namespace gradwire::lossy
