#include "stages/predict/kernels_fit.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace gradwire::predict {
namespace {

constexpr std::size_t kMaxKernels = 16384;
constexpr int kUnits = 16;   ///< logarithms count sixteenths of an octave
constexpr int kMargin = 11;  ///< 0.7 octave: errors exceed their mean logarithm
constexpr std::int32_t kNothing = INT32_MIN;

/// Exact value of an element; 0 for zeros, NaN and infinities.
template <typename Word>
double to_double(DType dtype, Word word) noexcept {
  const FloatFormat format = float_format(dtype);
  const auto fraction =
      static_cast<std::uint64_t>(word) & ((std::uint64_t{1} << format.fraction_bits) - 1);
  const auto exponent =
      static_cast<std::int64_t>(word >> format.fraction_bits & ((1u << format.exponent_bits) - 1));
  if (exponent == 0 || exponent == (1 << format.exponent_bits) - 1) return 0;
  const std::int64_t bias = (1 << (format.exponent_bits - 1)) - 1;
  const std::uint64_t bits = static_cast<std::uint64_t>(exponent - bias + 1023) << 52 |
                             fraction << (52 - format.fraction_bits);
  const auto magnitude = std::bit_cast<double>(bits);
  return word >> (format.bits() - 1) != 0 ? -magnitude : magnitude;
}

/// log2 |x| in sixteenths (piecewise linear), kNothing for 0.
std::int32_t log2_units(double x) noexcept {
  if (x == 0) return kNothing;
  const auto bits = std::bit_cast<std::uint64_t>(x) & ~(std::uint64_t{1} << 63);
  return static_cast<std::int32_t>(bits >> 48) - 1023 * kUnits;
}

std::int32_t divide_rounded(std::int64_t sum, std::int64_t count) noexcept {
  return static_cast<std::int32_t>(sum >= 0 ? (sum + count / 2) / count
                                            : -((-sum + count / 2) / count));
}

std::int32_t octaves(std::int32_t units) noexcept { return (units + kUnits / 2) >> 4; }

/// The kernels' values, tap after tap for each kernel.
template <typename Word>
std::vector<double> gather(DType dtype, const KernelParameters& p, const Word* words,
                           std::size_t first, std::size_t step, std::size_t count) {
  const auto taps = static_cast<std::size_t>(p.taps);
  const auto inner = static_cast<std::size_t>(p.inner);
  std::vector<double> values(count * taps);
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t j = first + k * step;
    const Word* at = words + j / inner * taps * inner + j % inner;
    for (std::size_t t = 0; t < taps; ++t) values[k * taps + t] = to_double(dtype, at[t * inner]);
  }
  return values;
}

/// Divides each kernel by its root mean square; zero kernels stay zero.
void normalise(std::vector<double>& values, std::size_t taps) {
  for (std::size_t at = 0; at < values.size(); at += taps) {
    double squares = 0;
    for (std::size_t t = 0; t < taps; ++t) squares += values[at + t] * values[at + t];
    if (squares == 0) continue;
    const double scale = 1 / std::sqrt(squares / static_cast<double>(taps));
    for (std::size_t t = 0; t < taps; ++t) values[at + t] *= scale;
  }
}

std::vector<double> gram(const std::vector<double>& values, std::size_t taps) {
  std::vector<double> products(taps * taps, 0);
  for (std::size_t at = 0; at < values.size(); at += taps) {
    for (std::size_t a = 0; a < taps; ++a) {
      for (std::size_t b = 0; b <= a; ++b)
        products[a * taps + b] += values[at + a] * values[at + b];
    }
  }
  return products;
}

/// Least squares of tap t from taps 0 .. t - 1: Cholesky of the Gram matrix, slightly regularised.
std::vector<double> solve(const std::vector<double>& products, std::size_t taps, std::size_t t) {
  std::vector<double> lower(t * t, 0);
  std::vector<double> x(t, 0);
  for (std::size_t i = 0; i < t; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = products[i * taps + j];
      if (i == j) sum += 1e-6 * sum + 1e-30;
      for (std::size_t k = 0; k < j; ++k) sum -= lower[i * t + k] * lower[j * t + k];
      lower[i * t + j] = i == j ? std::sqrt(std::max(sum, 1e-30)) : sum / lower[j * t + j];
    }
  }
  for (std::size_t i = 0; i < t; ++i) {
    double sum = products[t * taps + i];
    for (std::size_t k = 0; k < i; ++k) sum -= lower[i * t + k] * x[k];
    x[i] = sum / lower[i * t + i];
  }
  for (std::size_t i = t; i-- > 0;) {
    double sum = x[i];
    for (std::size_t k = i + 1; k < t; ++k) sum -= lower[k * t + i] * x[k];
    x[i] = sum / lower[i * t + i];
  }
  return x;
}

/// Coefficients in 256ths within the format's bounds; zero where the system is degenerate.
std::vector<std::int16_t> quantise(const std::vector<double>& x) {
  std::vector<std::int16_t> coefficients(x.size(), 0);
  std::int32_t sum = 0;
  for (std::size_t l = 0; l < x.size(); ++l) {
    const double scaled = std::floor(x[l] * 256 + 0.5);
    if (!(scaled >= -8192 && scaled <= 8192)) continue;
    coefficients[l] = static_cast<std::int16_t>(scaled);
    sum += std::abs(std::int32_t{coefficients[l]});
  }
  if (sum > kMaxCoefficientSum)
    std::fill(coefficients.begin(), coefficients.end(), std::int16_t{0});
  return coefficients;
}

/// Error of the guess of tap t.
double residual(const double* kernel, const Tap& tap, std::size_t t) noexcept {
  double guess = 0;
  for (std::size_t l = 0; l < t; ++l) guess += tap.coefficients[l] * kernel[l];
  return kernel[t] - guess / 256;
}

/// Mean logarithm of a kernel's errors, in sixteenths; kNothing for a zero kernel.
std::int32_t kernel_log(const double* kernel, const std::vector<Tap>& taps) noexcept {
  std::int64_t sum = 0;
  std::int64_t count = 0;
  for (std::size_t t = 0; t < taps.size(); ++t) {
    const std::int32_t log = log2_units(residual(kernel, taps[t], t));
    if (log == kNothing) continue;
    sum += log;
    ++count;
  }
  return count == 0 ? kNothing : divide_rounded(sum, count);
}

}  // namespace

template <typename Word>
Taps fit_taps(DType dtype, const KernelParameters& p, const Word* words, std::size_t n) {
  const auto taps = static_cast<std::size_t>(p.taps);
  const std::size_t kernels = n / taps;
  const std::size_t step = (kernels + kMaxKernels - 1) / kMaxKernels;
  const std::vector<double> values = gather(dtype, p, words, 0, step, kernels / step);
  std::vector<double> unit = values;
  normalise(unit, taps);
  const std::vector<double> products = gram(unit, taps);
  Taps result;
  result.taps.resize(taps);
  for (std::size_t t = 1; t < taps; ++t)
    result.taps[t].coefficients = quantise(solve(products, taps, t));

  // Scale of each tap's error, over the kernels' own (whole-octave) scales.
  std::vector<std::int64_t> sums(taps, 0);
  std::vector<std::int64_t> counts(taps, 0);
  for (std::size_t at = 0; at < values.size(); at += taps) {
    const std::int32_t kernel = kernel_log(values.data() + at, result.taps);
    if (kernel == kNothing) continue;
    for (std::size_t t = 0; t < taps; ++t) {
      const std::int32_t log = log2_units(residual(values.data() + at, result.taps[t], t));
      if (log == kNothing) continue;
      sums[t] += log - octaves(kernel) * kUnits;
      ++counts[t];
    }
  }
  std::vector<std::int32_t> k(taps, 0);
  for (std::size_t t = 0; t < taps; ++t) {
    k[t] = ((counts[t] == 0 ? 0 : divide_rounded(sums[t], counts[t])) + kMargin) >> 4;
  }
  std::vector<std::int32_t> sorted = k;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(taps / 2),
                   sorted.end());
  const std::int32_t middle = sorted[taps / 2];
  const std::int32_t bias = (1 << (float_format(dtype).exponent_bits - 1)) - 1;
  result.effort = 1;
  result.base = bias + middle;
  for (std::size_t t = 0; t < taps; ++t) {
    result.taps[t].h = static_cast<unsigned>(std::clamp(k[t] - middle + 15, 3, 23));
    result.taps[t].tau = bias + static_cast<std::int32_t>(result.taps[t].h) - 15 + middle;
  }
  return result;
}

Taps with_effort(const Taps& taps, unsigned effort) {
  Taps result = taps;
  const auto a = static_cast<std::int32_t>(effort) - 1;
  result.effort = effort;
  for (Tap& tap : result.taps) {
    tap.h = static_cast<unsigned>(static_cast<std::int32_t>(tap.h) - a);
    tap.tau -= a;
  }
  return result;
}

namespace {

/// Kernels that are fitted at a time, tap by tap, so that their values stay in L1 and loops are
/// straight.
constexpr std::size_t kBlock = 256;

/// Sums and counts of the logarithms of a block's guess errors.
struct BlockLogs {
  std::array<std::int32_t, kBlock> sums;
  std::array<std::int32_t, kBlock> counts;
  std::array<double, kBlock> errors;

  void add_errors(std::size_t n) noexcept {
    for (std::size_t j = 0; j < n; ++j) {
      const std::int32_t log = log2_units(errors[j]);
      sums[j] += log == kNothing ? 0 : log;
      counts[j] += log != kNothing;
    }
  }
};

/// errors = values of tap t less their guess; values lie tap by tap, kBlock apart.
void guess_errors(const double* values, const Tap& tap, std::size_t t, std::size_t n,
                  double* errors) noexcept {
  for (std::size_t j = 0; j < n; ++j) errors[j] = 0;
  for (std::size_t l = 0; l < t; ++l) {
    const double coefficient = tap.coefficients[l];
    const double* earlier = values + l * kBlock;
    for (std::size_t j = 0; j < n; ++j) errors[j] += coefficient * earlier[j];
  }
  const double* own = values + t * kBlock;
  for (std::size_t j = 0; j < n; ++j) errors[j] = own[j] - errors[j] / 256;
}

}  // namespace

template <typename Word>
void fit_kernel_scales(DType dtype, const KernelParameters& p, const Taps& taps, const Word* words,
                       std::size_t, std::span<std::int32_t> scales) {
  const auto count = static_cast<std::size_t>(p.taps);
  const auto inner = static_cast<std::size_t>(p.inner);
  std::vector<double> values(count * kBlock);
  BlockLogs logs;
  std::int32_t previous = 0;
  for (std::size_t first = 0; first < scales.size(); first += kBlock) {
    const std::size_t n = std::min(kBlock, scales.size() - first);
    for (std::size_t k = 0; k < n; ++k) {
      const std::size_t j = first + k;
      const Word* at = words + (inner == 1 ? j * count : j / inner * count * inner + j % inner);
      for (std::size_t t = 0; t < count; ++t)
        values[t * kBlock + k] = to_double(dtype, at[t * inner]);
    }
    logs.sums.fill(0);
    logs.counts.fill(0);
    for (std::size_t t = 0; t < count; ++t) {
      guess_errors(values.data(), taps.taps[t], t, n, logs.errors.data());
      logs.add_errors(n);
    }
    for (std::size_t k = 0; k < n; ++k) {
      // A kernel without values repeats its neighbour's scale, the cheapest to code.
      if (logs.counts[k] > 0) {
        previous = std::clamp(octaves(divide_rounded(logs.sums[k], logs.counts[k])),
                              -kMaxKernelScale, kMaxKernelScale);
      }
      scales[first + k] = previous;
    }
  }
}

#define GRADWIRE_FIT(Word)                                                                        \
  template Taps fit_taps<Word>(DType, const KernelParameters&, const Word*, std::size_t);         \
  template void fit_kernel_scales<Word>(DType, const KernelParameters&, const Taps&, const Word*, \
                                        std::size_t, std::span<std::int32_t>);
GRADWIRE_FIT(std::uint16_t)
GRADWIRE_FIT(std::uint32_t)
#undef GRADWIRE_FIT

}  // namespace gradwire::predict
