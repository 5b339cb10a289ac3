// What follows from the options alone.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/fail.h"
#include "lossy/quantise/quantise.h"

namespace gradwire::lossy {
namespace {

using enum QuantiserKind;

constexpr bool has_scales(QuantiserKind kind) noexcept {
  return kind != natural && kind != bf16 && kind != f16;
}

/// Values of the largest bucket that n values have, at least 1.
double bucket_of(const QuantiseOptions& options, std::size_t n) noexcept {
  const std::size_t most = options.bucket_values == 0 ? n : std::min(options.bucket_values, n);
  return static_cast<double>(std::max<std::size_t>(most, 1));
}

/// A value between two levels errs by f (1 - f) (N / s)^2 in the mean, which is at most
/// (N / 2s)^2 and at most |x| N / s. Sums over the bucket are bounded by |x|_1 <= sqrt(b) |x|, and
/// N <= |x|; with the norm max one value does not err.
double uniform_bound(const QuantiseOptions& options, double b) noexcept {
  const double s = options.levels;
  const bool is_max = options.norm == Norm::max;
  const double steps = (is_max ? b - 1 : b) / (4 * s * s);
  if (options.rounding == Rounding::random) return std::min(steps, std::sqrt(b) / s);
  return std::min(steps, is_max ? 1 - 1 / b : 1);
}

/// One value at N, the others at a N with the worst a: (sqrt(b) - 1) / 2. What is clipped errs by
/// |x - c|^2, and |c|^2 + |x - c|^2 <= |x|^2.
double ternary_bound(const QuantiseOptions& options, double b) noexcept {
  const double rounding = (std::sqrt(b) - 1) / 2;
  return options.clip_deviations == 0 ? rounding : std::max(rounding, 1.0);
}

/// Half a unit in the last of kFraction bits; under the normal range half of a fixed step, in
/// units of the bucket's largest.
double octet_bound(double relative, double step, double b) noexcept {
  return relative * relative + b * step * step;
}

}  // namespace

void check_options(const QuantiseOptions& options) {
  constexpr auto kInvalid = ErrorKind::invalid_argument;
  if (options.kind > e5m2)
    fail(kInvalid, "quantise: kind {} is none of the quantisers", static_cast<int>(options.kind));
  if (options.kind == uniform) {
    if (options.levels < 1 || options.levels > 32767)
      fail(kInvalid, "quantise: levels must be 1 to 32767, not {}", options.levels);
    if (options.norm != Norm::max && options.norm != Norm::l2)
      fail(kInvalid, "quantise: norm of uniform must be max or l2");
  }
  if (options.kind == sign && options.norm != Norm::l1 && options.norm != Norm::l2)
    fail(kInvalid, "quantise: norm of sign must be l1 or l2");
  const float clip = options.clip_deviations;
  if (options.kind == ternary && clip != 0 && !(clip >= 1 && std::isfinite(clip)))
    fail(kInvalid, "quantise: clip_deviations must be 0 (none) or at least 1, not {}", clip);
}

std::size_t scale_count(const QuantiseOptions& options, std::size_t n) noexcept {
  if (!has_scales(options.kind) || n == 0) return 0;
  if (options.bucket_values == 0) return 1;
  return n / options.bucket_values + (n % options.bucket_values != 0 ? 1 : 0);
}

std::uint32_t alphabet(const QuantiseOptions& options, std::uint32_t terms) noexcept {
  const auto with_steps = [terms](std::uint64_t steps) {
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
    return static_cast<std::uint32_t>(std::min(steps * terms + 1, kMost));
  };
  switch (options.kind) {
    case uniform:
      return with_steps(2 * std::uint64_t{options.levels});
    case ternary:
      return with_steps(2);
    case sign:
      return with_steps(1);
    case natural:
      return 512;
    case bf16:
    case f16:
      return 65536;
    default:
      return 256;
  }
}

double error_bound(const QuantiseOptions& options, std::size_t n) noexcept {
  const double b = bucket_of(options, n);
  switch (options.kind) {
    case uniform:
      return uniform_bound(options, b);
    case ternary:
      return ternary_bound(options, b);
    case sign:  // |x|^2 (1 - r^2) and 2 |x|^2 (1 - r), r = |x|_1 / (sqrt(b) |x|) >= 1 / sqrt(b)
      return options.norm == Norm::l1 ? 1 - 1 / b : 2 * (1 - 1 / std::sqrt(b));
    case natural:  // f (1 - f) / (1 + f)^2 of x^2 is largest at f = 1/3
      return 0.125;
    case bf16:
      return 0x1p-16;
    case f16:
      return 0x1p-22;
    case e4m3:
      return octet_bound(0x1p-4, 0x1p-10 / 448, b);
    case e5m2:
      return octet_bound(0x1p-3, 0x1p-17 / 57344, b);
  }
  return 1;
}

}  // namespace gradwire::lossy
