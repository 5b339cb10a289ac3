// What tests of the kernel pipeline share: drawn cases, and the check that a case comes back and
// agrees with its definition.
#pragma once

#include <random>

#include <gtest/gtest.h>

#include "base/bits.h"
#include "kernels_naive.h"

namespace gradwire::predict {

/// With no byte more behind it than the reader is promised.
inline Bytes with_slack(const Bytes& bytes) {
  Bytes readable(bytes.size() + kBitSlack, 0xA5);
  std::copy(bytes.begin(), bytes.end(), readable.begin());
  return readable;
}

/// What apply_kernels gave, ready for restore_kernels.
template <typename Word>
struct Coded {
  std::vector<std::uint8_t> symbols, second;
  std::vector<Word> low;
  Bytes raw, escapes;
  std::size_t escape_count = 0, first_tap = 0;
  KernelInput<Word> input(const KernelParameters& p, DType dtype) const {
    const bool plain_low = !p.counted && p.kept > kernel_fraction(dtype);
    return {symbols.data(), p.counted ? second.data() : nullptr, plain_low ? low.data() : nullptr,
            escapes.data(), escape_count};
  }
};

template <typename Word>
Coded<Word> apply(const Case<Word>& c) {
  const std::size_t n = c.words.size();
  Coded<Word> coded;
  coded.symbols.resize(n);
  coded.second.resize(n);
  coded.low.resize(n);
  Bytes room(n * (sizeof(Word) + 1) + 64);
  BitWriter raw(room.data());
  KernelScratch<Word> scratch;
  KernelSymbols<Word> out{coded.symbols.data(), 0, 0, coded.low.data(), coded.second.data(), 0};
  apply_kernels(c.run(), c.words.data(), scratch, out, raw, coded.escapes);
  coded.raw.assign(room.begin(), room.begin() + static_cast<std::ptrdiff_t>(raw.finish()));
  coded.symbols.resize(out.count);
  coded.second.resize(out.count);
  coded.low.resize(out.count);
  coded.escape_count = out.escapes;
  coded.first_tap = out.first_tap;
  return coded;
}

template <typename Word>
void expect_inverse(const Case<Word>& c) {
  SCOPED_TRACE(testing::Message() << "dtype " << static_cast<int>(c.dtype) << " kept "
                                  << c.parameters.kept << " counted " << c.parameters.counted
                                  << " lo " << c.parameters.low_count << " taps "
                                  << c.parameters.taps << " x " << c.parameters.inner << " effort "
                                  << c.taps.effort << " elements " << c.words.size());
  const Result<Word> expected = Naive<Word>(c)();
  const Coded<Word> coded = apply(c);
  ASSERT_TRUE(coded.symbols == expected.symbols);
  ASSERT_TRUE(coded.escapes == expected.escapes);
  ASSERT_EQ(coded.escapes.size(), coded.escape_count * sizeof(Word));
  ASSERT_TRUE(c.parameters.kept == kernel_fraction(c.dtype) || coded.low == expected.low);
  ASSERT_TRUE(!c.parameters.counted || coded.second == expected.second);
  ASSERT_EQ(coded.raw.size(), (expected.raw.size() + 7) / 8);
  for (std::size_t b = 0; b < expected.raw.size(); ++b) {
    ASSERT_EQ((coded.raw[b / 8] >> (b & 7) & 1) != 0, expected.raw[b]) << "raw bit " << b;
  }
  const Bytes readable = with_slack(coded.raw);
  SlackBitReader raw(ByteSpan(readable).first(coded.raw.size()));
  KernelScratch<Word> scratch;
  std::vector<Word> back(c.words.size(), static_cast<Word>(~Word{0}));
  ASSERT_TRUE(
      restore_kernels(c.run(), coded.input(c.parameters, c.dtype), scratch, raw, back.data()));
  ASSERT_TRUE(raw.at_exact_end());
  ASSERT_TRUE(back == c.words);
}

template <typename Word>
class Maker {
 public:
  Maker(DType dtype, std::uint64_t seed)
      : dtype_(dtype), format_(float_format(dtype)), random_(seed) {}

  Case<Word> draw(std::size_t groups) {
    Case<Word> c{dtype_, {}, {}, {}, {}, {}};
    KernelParameters& p = c.parameters;
    const unsigned L = kernel_fraction(dtype_);
    p.kept = L + static_cast<unsigned>(below(format_.fraction_bits - L + 1));
    p.counted = p.kept > L && below(2) == 0;
    p.low_count = p.counted ? static_cast<unsigned>(below(p.kept - L + 1)) : 0;
    p.taps = 2 + below(below(4) == 0 ? 63 : 9);
    p.inner = below(2) == 0 ? 1 : 1 + below(5);
    const std::size_t kernels = groups * p.inner;
    c.taps = draw_taps(p);
    c.scales.resize(kernels);
    for (auto& C : c.scales) C = static_cast<std::int32_t>(below(20)) - 10;
    if (below(4) == 0) c.scales[below(kernels)] = below(2) == 0 ? 1024 : -1024;
    fill(c);
    return c;
  }

  void fill(Case<Word>& c) {
    const std::size_t n = c.scales.size() * c.parameters.taps;
    c.words.resize(n);
    const bool masked = below(2) == 0;
    for (Word& word : c.words) word = draw_word(c.parameters.kept);
    if (!masked) return;
    c.mask.resize(n);
    for (std::size_t i = 0; i < n; ++i) c.mask[i] = c.words[i] != 0;
  }

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

 private:
  Taps draw_taps(const KernelParameters& p) {
    Taps taps;
    const int middle = dtype_ == DType::f16 ? 15 : 120;
    taps.effort = static_cast<unsigned>(below(4));
    taps.base = middle + static_cast<int>(below(9)) - 4;
    if (below(10) == 0) taps.base = below(2) == 0 ? 65536 : -65536;
    taps.taps.resize(p.taps);
    for (unsigned t = 0; t < p.taps; ++t) {
      Tap& tap = taps.taps[t];
      tap.h = static_cast<unsigned>(1 + below(24));
      tap.tau = middle + static_cast<int>(below(20)) - 10;
      if (below(20) == 0) tap.tau = below(2) == 0 ? 65536 : -65536;
      const int most = below(3) == 0 ? 32767 : 400;
      std::int32_t left = kMaxCoefficientSum;
      for (unsigned l = 0; l < t; ++l) {
        auto coefficient =
            static_cast<std::int32_t>(below(static_cast<unsigned>(2 * most + 1))) - most;
        if (below(30) == 0) coefficient = -32768;
        if (std::abs(coefficient) > left) coefficient = 0;
        left -= std::abs(coefficient);
        tap.coefficients.push_back(static_cast<std::int16_t>(coefficient));
      }
    }
    return taps;
  }

  Word draw_word(unsigned kept) {
    const unsigned W = format_.fraction_bits;
    const Word sign = static_cast<Word>(static_cast<Word>(below(2)) << (format_.bits() - 1));
    const Word most = static_cast<Word>((1u << format_.exponent_bits) - 1);
    const Word fraction = static_cast<Word>(random_() & ((std::uint64_t{1} << W) - 1));
    const Word short_fraction = static_cast<Word>(fraction >> (W - kept) << (W - kept));
    const Word middle = static_cast<Word>((dtype_ == DType::f16 ? 15 : 120) + below(12) - 6);
    switch (below(16)) {
      case 0:
        return 0;
      case 1:
        return sign;
      case 2:
        return static_cast<Word>(sign | most << W);
      case 3:
        return static_cast<Word>(sign | most << W | fraction);
      case 4:
        return static_cast<Word>(sign | fraction);
      case 5:
        return static_cast<Word>(random_());
      case 6:
        return static_cast<Word>(sign | middle << W | fraction);
      default:
        return static_cast<Word>(sign | middle << W | short_fraction);
    }
  }

  DType dtype_;
  FloatFormat format_;
  std::mt19937_64 random_;
};

}  // namespace gradwire::predict
