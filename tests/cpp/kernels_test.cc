#include "stages/predict/kernels.h"

#include <random>

#include <gtest/gtest.h>

#include "base/bits.h"
#include "base/float_format.h"
#include "gradwire/error.h"
#include "stages/predict/kernels_fit.h"

namespace gradwire::predict {
namespace {

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

int width_of(std::uint32_t value) {
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

/// With no byte more behind it than the reader is promised.
Bytes with_slack(const Bytes& bytes) {
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
  KernelScratch scratch;
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
  KernelScratch scratch;
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

TEST(Kernels, SmallestExample) {
  // bf16, two taps, step exponent eT = 120, a = 0. Tap 0 is 1.0: D = 127 - 120 = 7 = L, so m = 2^7
  // = 128, r = 0; without a guess delta = 128 > 16: an escape, symbol 47, whose 7 raw bits are the
  // fraction 0. v = 128. Tap 1: coefficient 256, h = 9: X = 256 * 128 = 2^15, Y = 2^7, Q = 0, m2 =
  // 128, G = 64, half 0. 0.5 has D = 6, m = 128 >> 1 = 64, r = 1: delta = 0, symbol 16, one raw bit
  // 0.
  Case<std::uint16_t> c{DType::bf16, {}, {}, {0}, {}, {0x3F80, 0x3F00}};
  c.parameters.kept = 7;
  c.taps.base = 127;
  c.taps.taps = {{1, 120, {}}, {9, 120, {256}}};
  const Coded<std::uint16_t> coded = apply(c);
  EXPECT_EQ(coded.symbols, (std::vector<std::uint8_t>{47, 16}));
  EXPECT_EQ(coded.escapes, (Bytes{0x80, 0x3F}));
  EXPECT_EQ(coded.raw, (Bytes{0}));
  EXPECT_EQ(coded.first_tap, 1u);
  expect_inverse(c);
}

template <typename Word>
void check_random(DType dtype, int trials) {
  Maker<Word> make(dtype, static_cast<std::uint64_t>(dtype) * 1000);
  for (int trial = 0; trial < trials; ++trial) {
    ASSERT_NO_FATAL_FAILURE(expect_inverse(make.draw(1 + make.below(40)))) << "trial " << trial;
  }
}

TEST(Kernels, Bf16ComesBackUnderAnyTaps) { check_random<std::uint16_t>(DType::bf16, 600); }
TEST(Kernels, F16ComesBackUnderAnyTaps) { check_random<std::uint16_t>(DType::f16, 600); }
TEST(Kernels, F32ComesBackUnderAnyTaps) { check_random<std::uint32_t>(DType::f32, 600); }

/// Each word is tap 1 of its kernel, behind a first tap that gives guesses of every size and sign.
template <typename Word>
void check_all_words(DType dtype) {
  Maker<Word> make(dtype, 9);
  for (unsigned effort = 0; effort <= 3; ++effort) {
    Case<Word> c = make.draw(1);
    c.parameters = {};
    c.parameters.kept = float_format(dtype).fraction_bits;
    c.mask.clear();
    const int middle = dtype == DType::f16 ? 15 : 120;
    c.taps = {
        effort, middle, {{8, middle, {}}, {3 + effort, middle, {static_cast<std::int16_t>(211)}}}};
    c.words.clear();
    const FloatFormat format = float_format(dtype);
    const std::uint64_t count =
        sizeof(Word) == 2 ? 65536 : std::uint64_t{6} << format.exponent_bits;
    for (std::uint64_t k = 0; k < count; ++k) {
      const Word first = static_cast<Word>(
          static_cast<Word>(k & 1) << (format.bits() - 1) |
          static_cast<Word>(middle - 4 + static_cast<int>(make.below(8))) << format.fraction_bits |
          static_cast<Word>(make.below(1u << format.fraction_bits)));
      c.words.push_back(first);
      if (sizeof(Word) == 2) {
        c.words.push_back(static_cast<Word>(k));
      } else {
        const Word most = static_cast<Word>((1u << format.fraction_bits) - 1);
        const Word fraction = k % 3 == 0 ? Word{0} : k % 3 == 1 ? Word{1} : most;
        c.words.push_back(static_cast<Word>(static_cast<Word>(k / 3 % 2) << (format.bits() - 1) |
                                            static_cast<Word>(k / 6) << format.fraction_bits |
                                            fraction));
      }
    }
    c.scales.assign(c.words.size() / 2, 0);
    ASSERT_NO_FATAL_FAILURE(expect_inverse(c)) << "effort " << effort;
  }
}

TEST(Kernels, AllBf16WordsComeBack) { check_all_words<std::uint16_t>(DType::bf16); }
TEST(Kernels, AllF16WordsComeBack) { check_all_words<std::uint16_t>(DType::f16); }
TEST(Kernels, EveryF32ExponentComesBack) { check_all_words<std::uint32_t>(DType::f32); }

template <typename Word>
void check_fit(DType dtype) {
  Maker<Word> make(dtype, 31);
  for (int trial = 0; trial < 100; ++trial) {
    Case<Word> c = make.draw(1 + make.below(60));
    const Taps fitted = fit_taps(dtype, c.parameters, c.words.data(), c.words.size());
    for (unsigned effort = 0; effort <= 3; ++effort) {
      c.taps = with_effort(fitted, effort);
      fit_kernel_scales(dtype, c.parameters, c.taps, c.words.data(), c.words.size(), c.scales);
      ASSERT_NO_FATAL_FAILURE(expect_inverse(c)) << "trial " << trial;
      Bytes bytes;
      ByteWriter out(bytes);
      write_taps(c.taps, out);
      ByteReader in(bytes);
      const Taps back = read_taps(in, static_cast<unsigned>(c.parameters.taps));
      ASSERT_EQ(back.base, c.taps.base);
      ASSERT_EQ(back.effort, effort);
      for (std::size_t t = 0; t < c.parameters.taps; ++t) {
        ASSERT_EQ(back.taps[t].h, c.taps.taps[t].h);
        ASSERT_EQ(back.taps[t].tau, c.taps.taps[t].tau);
        ASSERT_EQ(back.taps[t].coefficients, c.taps.taps[t].coefficients);
      }
    }
  }
}

TEST(Kernels, FittedTapsAreWithinTheFormatWhateverTheData) {
  check_fit<std::uint16_t>(DType::bf16);
  check_fit<std::uint16_t>(DType::f16);
  check_fit<std::uint32_t>(DType::f32);
}

TEST(Kernels, TapsBeyondTheirRangesAreRefused) {
  const auto refused = [](const Taps& taps) {
    Bytes bytes;
    ByteWriter out(bytes);
    write_taps(taps, out);
    ByteReader in(bytes);
    try {
      read_taps(in, static_cast<unsigned>(taps.taps.size()));
    } catch (const Error& error) {
      return error.kind() == ErrorKind::corrupt;
    }
    return false;
  };
  const Taps good{1, 127, {{1, 120, {}}, {24, -65536, {32767}}}};
  EXPECT_FALSE(refused(good));
  for (const unsigned h : {0u, 25u, 255u}) {
    Taps bad = good;
    bad.taps[1].h = h;
    EXPECT_TRUE(refused(bad)) << h;
  }
  for (const std::int32_t value : {65537, -65537}) {
    Taps bad = good;
    bad.base = value;
    EXPECT_TRUE(refused(bad));
    bad = good;
    bad.taps[0].tau = value;
    EXPECT_TRUE(refused(bad));
  }
  Taps bad = good;
  bad.effort = 4;
  EXPECT_TRUE(refused(bad));
  bad = good;
  bad.taps.push_back({1, 0, {-32768, -32768}});  // 65536
  EXPECT_TRUE(refused(bad));
  bad.taps.back().coefficients = {-32768, 32767};  // 65535
  EXPECT_FALSE(refused(bad));
}

TEST(Kernels, RestoringWhatNoEncoderWroteIsSafe) {
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    Maker<std::uint32_t> wide(dtype, 3);
    Maker<std::uint16_t> narrow(dtype, 3);
    const auto attack = [&]<typename Word>(Maker<Word>& make) {
      for (int trial = 0; trial < 500; ++trial) {
        Case<Word> c = make.draw(1 + make.below(10));
        const unsigned alphabet = kernel_alphabet(c.taps.effort);
        const std::size_t n = c.words.size();
        Coded<Word> coded;
        coded.symbols.resize(n);
        coded.second.resize(n);
        coded.low.resize(n);
        for (auto& symbol : coded.symbols) symbol = static_cast<std::uint8_t>(make.below(alphabet));
        for (auto& v : coded.second) v = static_cast<std::uint8_t>(make.below(16));
        coded.raw.resize(make.below(2 * n));
        for (auto& byte : coded.raw) byte = static_cast<std::uint8_t>(make.below(256));
        coded.escape_count = make.below(n);
        coded.escapes.resize(coded.escape_count * sizeof(Word));
        const Bytes readable = with_slack(coded.raw);
        SlackBitReader raw(ByteSpan(readable).first(coded.raw.size()));
        KernelScratch scratch;
        std::vector<Word> words(n);
        (void)restore_kernels(c.run(), coded.input(c.parameters, dtype), scratch, raw,
                              words.data());
      }
    };
    if (dtype == DType::f32)
      attack(wide);
    else
      attack(narrow);
  }
}

}  // namespace
}  // namespace gradwire::predict
