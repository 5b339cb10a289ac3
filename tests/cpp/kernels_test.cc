#include "stages/predict/kernels.h"

#include "kernels_testing.h"

namespace gradwire::predict {
namespace {

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
        KernelScratch<Word> scratch;
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
