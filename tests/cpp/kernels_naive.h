// The kernel pipeline's symbols as docs/format.md 6.2 to 6.5 defines them, element by element.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/float_format.h"
#include "stages/predict/kernels.h"

namespace gradwire::predict {

/// A chunk of kernels with all that codes it.
template <typename Word>
struct Case {
  DType dtype;
  KernelParameters parameters;
  Taps taps;
  std::vector<std::int32_t> scales;
  std::vector<std::uint8_t> mask;  ///< empty: all coded
  std::vector<Word> words;
  KernelRun run() const {
    return {dtype,       &parameters, &taps, scales.data(), mask.empty() ? nullptr : mask.data(),
            words.size()};
  }
};

template <typename Word>
struct Result {
  std::vector<std::uint8_t> symbols, second;
  std::vector<Word> low;
  std::vector<bool> raw;
  Bytes escapes;
};

inline int width_of(std::uint32_t value) {
  int bits = 0;
  for (; value != 0; value >>= 1) ++bits;
  return bits;
}

/// docs/format.md 6.2 to 6.5 element by element, in its own letters and in 64 bits.
template <typename Word>
class Naive {
 public:
  explicit Naive(const Case<Word>& c) : c_(c), format_(float_format(c.dtype)) {
    L_ = c.dtype == DType::f16 ? 10 : 7;
    W_ = static_cast<int>(format_.fraction_bits);
    E_ = static_cast<int>(format_.exponent_bits);
    H_ = c.taps.effort <= 1 ? 16 : c.taps.effort == 2 ? 24 : 48;
  }

  Result<Word> operator()() {
    const std::size_t T = c_.parameters.taps;
    const std::size_t inner = c_.parameters.inner;
    const std::size_t kernels = c_.words.size() / T;
    std::vector<std::int64_t> v(c_.words.size(), 0);
    const auto place = [&](std::size_t j, std::size_t t) {
      return j / inner * T * inner + t * inner + j % inner;
    };
    for (std::size_t t = 0; t < T; ++t) {
      for (std::size_t j = 0; j < kernels; ++j) {
        const std::size_t i = place(j, t);
        if (!c_.mask.empty() && c_.mask[i] == 0) continue;
        std::int64_t X = 0;
        for (std::size_t l = 0; l < t; ++l)
          X += std::int64_t{c_.taps.taps[t].coefficients[l]} * v[place(j, l)];
        code(c_.words[i], X, static_cast<int>(c_.taps.taps[t].h),
             c_.taps.taps[t].tau + c_.scales[j]);
        v[i] = value(c_.words[i], c_.scales[j]);
      }
    }
    return std::move(out_);
  }

 private:
  std::int64_t value(Word word, std::int32_t C) const {
    const std::int64_t e = exponent(word);
    const std::int64_t s = std::clamp<std::int64_t>(e - c_.taps.base - C, -9, 7);
    if (s == -9) return 0;
    const std::int64_t top = fraction(word) >> (W_ - L_);
    const std::int64_t magnitude = ((((std::int64_t{1} << L_) + top) >> (L_ - 7)) << (8 + s)) >> 8;
    return negative(word) ? -magnitude : magnitude;
  }

  void code(Word word, std::int64_t X, int h, std::int64_t step) {
    const std::int64_t Y = std::min<std::int64_t>(std::abs(X) >> (h - 1), 65535);
    const int Q = std::max(0, width_of(static_cast<std::uint32_t>(Y)) - (L_ + 2));
    const bool exact = static_cast<int>(c_.parameters.kept) == L_;
    const std::int64_t m2 =
        (std::int64_t{Q} << (L_ + 1)) + (Y >> Q) + ((Y >> (L_ + 1)) != 0 && exact ? 1 : 0);
    const std::int64_t G = m2 >> 1;
    const bool half = (m2 & 1) != 0;
    const std::int64_t eT = std::clamp<std::int64_t>(step, 1, (1 << E_) - 2 - L_);
    const std::int64_t e = exponent(word);
    const std::int64_t F = fraction(word) >> (W_ - L_);
    const std::int64_t D = e - eT;
    std::int64_t m = 0, z = 0;
    int r = L_;
    if (D < 0) {
      z = -1 - D;
    } else if (D < L_) {
      m = ((std::int64_t{1} << L_) + F) >> (L_ - D);
      r = L_ - static_cast<int>(D);
    } else {
      m = ((e << L_ | F) - (eT << L_)) - (std::int64_t{L_} << L_) + (std::int64_t{1} << L_);
      r = 0;
    }
    const bool differ = negative(word) != (X < 0);
    std::int64_t delta = (differ ? -1 - m : m) - G;
    if (G >= 8 && !half) delta = -delta;
    std::int64_t symbol = 2 * H_ + 15;
    if (m > 0 && std::abs(delta) <= H_) symbol = delta + H_;
    if (m == 0 && z <= 6) symbol = 2 * H_ + 1 + 2 * z + differ;
    if ((fraction(word) & ((std::int64_t{1} << (W_ - static_cast<int>(c_.parameters.kept))) - 1)) !=
        0)
      symbol = 2 * H_ + 15;
    if (symbol == 2 * H_ + 15) {
      r = L_;
      for (std::size_t b = 0; b < sizeof(Word); ++b)
        out_.escapes.push_back(static_cast<std::uint8_t>(word >> 8 * b));
    }
    out_.symbols.push_back(static_cast<std::uint8_t>(symbol));
    put(static_cast<std::uint64_t>(F), r);
    low(word);
  }

  void low(Word word) {
    const int low_bits = static_cast<int>(c_.parameters.kept) - L_;
    if (low_bits == 0) return;
    const std::uint64_t g =
        static_cast<std::uint64_t>(fraction(word) >> (W_ - static_cast<int>(c_.parameters.kept))) &
        ((std::uint64_t{1} << low_bits) - 1);
    out_.low.push_back(static_cast<Word>(g));
    if (!c_.parameters.counted) return;
    const int lo = static_cast<int>(c_.parameters.low_count);
    int u = 0;
    for (int b = 0; b < low_bits; ++b) {
      if (g >> b & 1) {
        u = low_bits - b;
        break;
      }
    }
    const int v = u <= lo ? 0 : u < lo + 15 ? u - lo : 15;
    out_.second.push_back(static_cast<std::uint8_t>(v));
    if (v == 0) put(g >> (low_bits - lo), lo);
    if (v >= 1 && v <= 14) put(g >> (low_bits - u + 1), u - 1);
    if (v == 15) put(g, low_bits);
  }

  void put(std::uint64_t value, int bits) {
    for (int b = 0; b < bits; ++b) out_.raw.push_back((value >> b & 1) != 0);
  }
  bool negative(Word word) const { return word >> (E_ + W_) != 0; }
  std::int64_t exponent(Word word) const {
    return static_cast<std::int64_t>(word >> W_) & ((1 << E_) - 1);
  }
  std::int64_t fraction(Word word) const {
    return static_cast<std::int64_t>(word) & ((std::int64_t{1} << W_) - 1);
  }

  const Case<Word>& c_;
  FloatFormat format_;
  int L_, W_, E_, H_;
  Result<Word> out_;
};

}  // namespace gradwire::predict
