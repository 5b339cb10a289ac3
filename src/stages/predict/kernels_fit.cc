#include "stages/predict/kernels_fit.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/clones.h"

namespace gradwire::predict {
namespace {

constexpr std::size_t kMaxKernels = 16384;
constexpr int kUnits = 16;   ///< logarithms count sixteenths of an octave
constexpr int kMargin = 11;  ///< 0.7 octave: errors exceed their mean logarithm
constexpr std::int32_t kNothing = INT32_MIN;

/// Value of an element, exact but for bits of f32 beyond a float's; 0 for zeros, subnormals, NaN
/// and infinities.
template <typename Word>
float to_float(const FloatFormat& format, Word word) noexcept {
  const auto exponents = static_cast<std::int32_t>((1u << format.exponent_bits) - 1);
  const auto bits = static_cast<std::uint32_t>(word);
  const auto exponent = static_cast<std::int32_t>(bits >> format.fraction_bits) & exponents;
  const std::int32_t rebias = (127 - (exponents >> 1)) << 23;
  const std::uint32_t magnitude =
      ((bits << (31 - format.exponent_bits - format.fraction_bits)) & 0x7fffffff) >>
      (8 - format.exponent_bits);
  const std::uint32_t sign = bits >> (format.bits() - 1) << 31;
  const auto value = std::bit_cast<float>((magnitude + static_cast<std::uint32_t>(rebias)) | sign);
  return exponent == 0 || exponent == exponents ? 0.0F : value;
}

/// log2 |x| in sixteenths (piecewise linear) of an x that is not 0.
std::int32_t log2_units(float x) noexcept {
  return static_cast<std::int32_t>((std::bit_cast<std::uint32_t>(x) & 0x7fffffff) >> 19) -
         127 * kUnits;
}

std::int32_t divide_rounded(std::int64_t sum, std::int64_t count) noexcept {
  return static_cast<std::int32_t>(sum >= 0 ? (sum + count / 2) / count
                                            : -((-sum + count / 2) / count));
}

std::int32_t octaves(std::int32_t units) noexcept { return (units + kUnits / 2) >> 4; }

/// Kernels that are fitted at a time, tap by tap, so that their values stay in L1 and loops are
/// straight.
constexpr std::size_t kBlock = 256;

/// Values of some kernels, those of a tap side by side.
class Block {
 public:
  explicit Block(const KernelParameters& p)
      : taps(static_cast<std::size_t>(p.taps)),
        inner_(static_cast<std::size_t>(p.inner)),
        values_(taps * kBlock) {}

  /// n kernels, at most kBlock, from the first on, each `step` after the one before.
  template <typename Word>
  GRADWIRE_CLONES void load(FloatFormat format, const Word* words, std::size_t first,
                            std::size_t step, std::size_t n) noexcept {
    size_ = n;
    for (std::size_t t = 0; t < taps; ++t) {
      std::array<Word, kBlock> gathered;
      for (std::size_t k = 0; k < n; ++k) {
        const std::size_t j = first + k * step;
        gathered[k] = inner_ == 1 ? words[j * taps + t]
                                  : words[j / inner_ * taps * inner_ + t * inner_ + j % inner_];
      }
      for (std::size_t k = 0; k < n; ++k) tap(t)[k] = to_float(format, gathered[k]);
    }
  }

  float* tap(std::size_t t) noexcept { return values_.data() + t * kBlock; }
  std::size_t size() const noexcept { return size_; }

  /// errors = values of tap t less their guess.
  GRADWIRE_CLONES void guess_errors(const Tap& fitted, std::size_t t, float* errors) noexcept {
    std::fill_n(errors, size_, 0.0F);
    for (std::size_t l = 0; l < t; ++l) {
      const auto coefficient = static_cast<float>(fitted.coefficients[l]) / 256;
      const float* earlier = tap(l);
      for (std::size_t k = 0; k < size_; ++k) errors[k] += coefficient * earlier[k];
    }
    const float* own = tap(t);
    for (std::size_t k = 0; k < size_; ++k) errors[k] = own[k] - errors[k];
  }

  /// Divides each kernel by its root mean square; zero kernels stay zero. Its largest exponent is
  /// taken out before, so that no square leaves the range of floats.
  GRADWIRE_CLONES void normalise() noexcept {
    std::array<std::int32_t, kBlock> most{};
    for (std::size_t t = 0; t < taps; ++t) {
      const float* values = tap(t);
      for (std::size_t k = 0; k < size_; ++k) {
        const auto exponent = std::bit_cast<std::int32_t>(values[k]) >> 23 & 255;
        most[k] = most[k] > exponent ? most[k] : exponent;
      }
    }
    std::array<float, kBlock> factors;
    for (std::size_t k = 0; k < size_; ++k)
      factors[k] = std::bit_cast<float>((most[k] > 252 ? 1 : 253 - most[k]) << 23);
    scale(factors);
    std::array<float, kBlock> squares{};
    for (std::size_t t = 0; t < taps; ++t) {
      const float* values = tap(t);
      for (std::size_t k = 0; k < size_; ++k) squares[k] += values[k] * values[k];
    }
    for (std::size_t k = 0; k < size_; ++k)
      factors[k] = squares[k] == 0 ? 0 : 1 / std::sqrt(squares[k] / static_cast<float>(taps));
    scale(factors);
  }

  /// Adds the products of taps a and b, b <= a, to products[a * taps + b].
  GRADWIRE_CLONES void add_products(std::vector<double>& products) noexcept {
    for (std::size_t t = 0; t < taps; ++t) std::fill(tap(t) + size_, tap(t) + kBlock, 0.0F);
    for (std::size_t a = 0; a < taps; ++a) {
      for (std::size_t b = 0; b <= a; ++b) products[a * taps + b] += product(tap(a), tap(b));
    }
  }

  const std::size_t taps;

 private:
  void scale(const std::array<float, kBlock>& factors) noexcept {
    for (std::size_t t = 0; t < taps; ++t) {
      float* values = tap(t);
      for (std::size_t k = 0; k < size_; ++k) values[k] *= factors[k];
    }
  }
  /// In eight partial sums, which compilers may not make of one.
  static double product(const float* x, const float* y) noexcept {
    std::array<float, 8> sums{};
    for (std::size_t k = 0; k < kBlock; k += 8) {
      for (std::size_t i = 0; i < 8; ++i) sums[i] += x[k + i] * y[k + i];
    }
    double sum = 0;
    for (const float partial : sums) sum += partial;
    return sum;
  }

  std::size_t inner_;
  std::size_t size_ = 0;
  std::vector<float> values_;
};

/// Mean logarithms of the errors of a block's kernels, in sixteenths.
class BlockLogs {
 public:
  explicit BlockLogs(std::size_t taps) : logs_(taps * kBlock) {}

  GRADWIRE_CLONES void measure(Block& block, const std::vector<Tap>& taps) noexcept {
    sums_.fill(0);
    counts_.fill(0);
    std::array<float, kBlock> errors;
    for (std::size_t t = 0; t < taps.size(); ++t) {
      block.guess_errors(taps[t], t, errors.data());
      std::int32_t* logs = logs_.data() + t * kBlock;
      for (std::size_t k = 0; k < block.size(); ++k) {
        const std::int32_t any = -std::int32_t{errors[k] != 0};
        logs[k] = (log2_units(errors[k]) & any) | (kNothing & ~any);
        sums_[k] += logs[k] & any;
        counts_[k] -= any;
      }
    }
  }
  /// Of a kernel, rounded; kNothing for one without errors.
  std::int32_t mean(std::size_t k) const noexcept {
    return counts_[k] == 0 ? kNothing : divide_rounded(sums_[k], counts_[k]);
  }
  std::int32_t log(std::size_t t, std::size_t k) const noexcept { return logs_[t * kBlock + k]; }

 private:
  std::vector<std::int32_t> logs_;
  std::array<std::int32_t, kBlock> sums_;
  std::array<std::int32_t, kBlock> counts_;
};

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

/// Where sampled kernels lie: every step-th of a chunk.
struct Sampled {
  std::size_t step;
  std::size_t count;
};

/// Calls function(block) for blocks of sampled kernels.
template <typename Word, typename Function>
void for_each_block(const FloatFormat& format, const Word* words, Sampled sampled, Block& block,
                    const Function& function) {
  for (std::size_t k = 0; k < sampled.count; k += kBlock) {
    block.load(format, words, k * sampled.step, sampled.step, std::min(kBlock, sampled.count - k));
    function(block);
  }
}

/// Scale of each tap's error in octaves, over the kernels' own (whole-octave) scales.
class TapScales {
 public:
  explicit TapScales(std::size_t taps) : logs_(taps), sums_(taps, 0), counts_(taps, 0) {}
  void add(Block& block, const std::vector<Tap>& taps) {
    logs_.measure(block, taps);
    for (std::size_t k = 0; k < block.size(); ++k) {
      const std::int32_t kernel = logs_.mean(k);
      if (kernel == kNothing) continue;
      for (std::size_t t = 0; t < taps.size(); ++t) {
        const std::int32_t log = logs_.log(t, k);
        if (log == kNothing) continue;
        sums_[t] += log - octaves(kernel) * kUnits;
        ++counts_[t];
      }
    }
  }
  std::int32_t octaves_of(std::size_t t) const noexcept {
    return ((counts_[t] == 0 ? 0 : divide_rounded(sums_[t], counts_[t])) + kMargin) >> 4;
  }

 private:
  BlockLogs logs_;
  std::vector<std::int64_t> sums_;
  std::vector<std::int64_t> counts_;
};

/// h and tau of the taps, base, from the scales.
void set_steps(DType dtype, const TapScales& scales, Taps& taps) {
  std::vector<std::int32_t> k(taps.taps.size(), 0);
  for (std::size_t t = 0; t < k.size(); ++t) k[t] = scales.octaves_of(t);
  std::vector<std::int32_t> sorted = k;
  const auto half = static_cast<std::ptrdiff_t>(k.size() / 2);
  std::nth_element(sorted.begin(), sorted.begin() + half, sorted.end());
  const std::int32_t middle = sorted[k.size() / 2];
  const std::int32_t bias = (1 << (float_format(dtype).exponent_bits - 1)) - 1;
  taps.effort = 1;
  taps.base = bias + middle;
  for (std::size_t t = 0; t < k.size(); ++t) {
    taps.taps[t].h = static_cast<unsigned>(std::clamp(k[t] - middle + 15, 3, 23));
    taps.taps[t].tau = bias + static_cast<std::int32_t>(taps.taps[t].h) - 15 + middle;
  }
}

}  // namespace

template <typename Word>
Taps fit_taps(DType dtype, const KernelParameters& p, const Word* words, std::size_t n) {
  const auto taps = static_cast<std::size_t>(p.taps);
  const std::size_t kernels = n / taps;
  const std::size_t step = (kernels + kMaxKernels - 1) / kMaxKernels;
  const Sampled sampled{step, kernels / step};
  const FloatFormat format = float_format(dtype);
  Block block(p);
  std::vector<double> products(taps * taps, 0);
  for_each_block(format, words, sampled, block, [&](Block& kernels_of) {
    kernels_of.normalise();
    kernels_of.add_products(products);
  });
  Taps result;
  result.taps.resize(taps);
  for (std::size_t t = 1; t < taps; ++t)
    result.taps[t].coefficients = quantise(solve(products, taps, t));
  TapScales scales(taps);
  for_each_block(format, words, sampled, block,
                 [&](Block& kernels_of) { scales.add(kernels_of, result.taps); });
  set_steps(dtype, scales, result);
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

template <typename Word>
void fit_kernel_scales(DType dtype, const KernelParameters& p, const Taps& taps, const Word* words,
                       std::size_t, std::span<std::int32_t> scales) {
  Block block(p);
  BlockLogs logs(block.taps);
  std::int32_t previous = 0;
  for (std::size_t first = 0; first < scales.size(); first += kBlock) {
    block.load(float_format(dtype), words, first, 1, std::min(kBlock, scales.size() - first));
    logs.measure(block, taps.taps);
    for (std::size_t k = 0; k < block.size(); ++k) {
      // A kernel without values repeats its neighbour's scale, the cheapest to code.
      const std::int32_t mean = logs.mean(k);
      if (mean != kNothing) previous = std::clamp(octaves(mean), -kMaxKernelScale, kMaxKernelScale);
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
