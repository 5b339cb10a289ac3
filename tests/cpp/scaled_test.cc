#include "stages/predict/scaled.h"

#include "scaled_testing.h"

namespace gradwire::predict {
namespace {

/// Every pattern of 16-bit formats; of the others each exponent x {0, 1, largest} fraction x sign,
/// and fractions with few bits.
template <typename Word>
std::vector<Word> all_words(FloatFormat format) {
  std::vector<Word> words;
  if (sizeof(Word) == 2) {
    for (unsigned bits = 0; bits < 65536; ++bits) words.push_back(static_cast<Word>(bits));
    return words;
  }
  const Word most = static_cast<Word>((Word{1} << format.fraction_bits) - 1);
  for (Word exponent = 0; exponent < Word{1} << format.exponent_bits; ++exponent) {
    for (const Word fraction : {Word{0}, Word{1}, most, static_cast<Word>(most & ~(most >> 2)),
                                static_cast<Word>(Word{1} << (format.fraction_bits - 3))}) {
      const Word magnitude = static_cast<Word>(exponent << format.fraction_bits | fraction);
      words.push_back(magnitude);
      words.push_back(static_cast<Word>(magnitude | Word{1} << (format.bits() - 1)));
    }
  }
  return words;
}

template <typename Word>
void check_all_words(DType dtype) {
  const FloatFormat format = float_format(dtype);
  std::vector<Word> words = all_words<Word>(format);
  Setting setting(dtype, static_cast<std::uint64_t>(dtype));
  std::shuffle(words.begin(), words.end(), setting.random());
  for (const SignMode sign_mode : {SignMode::raw, SignMode::rank_one, SignMode::tap}) {
    for (unsigned step = 0; step <= 2; ++step) {
      for (const unsigned kept : {step, (step + format.fraction_bits) / 2, format.fraction_bits - 1,
                                  format.fraction_bits}) {
        for (const unsigned scales : {0u, 1u, 2u}) {
          ScaledParameters p;
          p.kept = kept;
          p.step_log2 = step;
          p.has_scales = scales > 0;
          p.halved = scales == 2;
          p.sign_mode = sign_mode;
          constexpr std::uint64_t kColumns[] = {1, 3, 256, 1000, 65536, 200000};
          p.columns = kColumns[setting.random()() % 6];
          if (sign_mode == SignMode::tap) {
            constexpr std::uint64_t kTaps[] = {1, 2, 9, 27, 1u << 20};
            constexpr std::uint64_t kInner[] = {1, 1, 2, 64, 70000};
            p.taps = kTaps[setting.random()() % 5];
            p.inner = kInner[setting.random()() % 5];
          }
          ASSERT_NO_FATAL_FAILURE(setting.check(p, words));
        }
      }
    }
  }
}

TEST(Scaled, SmallestExampleWithRawSigns) {
  // bf16, exponents 120 to 133 in the window. 1.0 = 0 127 0000000: symbol 7, record 0. -1.5: symbol
  // 7, record 1000000'1. +0.0: the zero symbol 14. -0.0: an escape, 15, exponent byte 0, record
  // 0'1.
  ScaledParameters p;
  p.kept = 7;
  p.has_zero = true;
  p.columns = 4;
  const Grid grid;
  const ScaledRun run{float_format(DType::bf16), &p, &grid, 120, 0, 4};
  const std::vector<std::uint16_t> words{0x3F80, 0xBFC0, 0x0000, 0x8000};
  std::vector<std::uint8_t> symbols(4);
  std::vector<std::uint16_t> records(4);
  Bytes escapes;
  EXPECT_EQ(apply_scaled(run, words.data(), false, symbols.data(), records.data(), escapes), 1u);
  EXPECT_EQ(symbols, (std::vector<std::uint8_t>{7, 7, 14, 15}));
  EXPECT_EQ(records, (std::vector<std::uint16_t>{0, 0x81, 0, 1}));
  EXPECT_EQ(escapes, (Bytes{0}));
}

TEST(Scaled, SmallestExampleWithTaps) {
  // Three taps of f16, no fraction bits kept, residuals 8 to 13: 2^-5 (e = 10), -2^-3 (e = 12) and
  // -1.5 x 2^-3, whose fraction must escape.
  ScaledParameters p;
  p.kept = 0;
  p.window = 6;
  p.sign_mode = SignMode::tap;
  p.taps = 3;
  p.columns = 3;
  const Grid grid;
  const ScaledRun run{float_format(DType::f16), &p, &grid, 8, 0, 3};
  const std::vector<std::uint16_t> words{0x2800, 0xB000, 0xB200};
  std::vector<std::uint8_t> symbols(3);
  std::vector<std::uint16_t> records(3);
  Bytes escapes;
  EXPECT_EQ(apply_scaled(run, words.data(), false, symbols.data(), records.data(), escapes), 2u);
  // d = 10: symbol 2 * (10 - 8) + 0. Then q' = 10, d = 12 - (11 >> 1) = 7: below the window, an
  // escape of 5 + 10 + 1 = 16 bits: 12 << 10 | 0, sign 1. Then d = 12 - 0, but the fraction
  // escapes.
  EXPECT_EQ(symbols, (std::vector<std::uint8_t>{4, 13, 13}));
  EXPECT_EQ(escapes, (Bytes{0x01, 0x60, 0x01, 0x64}));
}

TEST(Scaled, AllBf16WordsComeBackInEveryMode) { check_all_words<std::uint16_t>(DType::bf16); }
TEST(Scaled, AllF16WordsComeBackInEveryMode) { check_all_words<std::uint16_t>(DType::f16); }
TEST(Scaled, EveryF32ExponentComesBackInEveryMode) { check_all_words<std::uint32_t>(DType::f32); }
TEST(Scaled, EveryF64ExponentComesBackInEveryMode) { check_all_words<std::uint64_t>(DType::f64); }

/// Short runs at odd places: rows cut at both ends, fewer elements than a vector has lanes.
template <typename Word>
void check_short_runs(DType dtype) {
  Setting setting(dtype, 77);
  auto& random = setting.random();
  const FloatFormat format = float_format(dtype);
  for (int trial = 0; trial < 3000; ++trial) {
    ScaledParameters p;
    p.step_log2 = static_cast<unsigned>(random() % 3);
    p.kept =
        p.step_log2 + static_cast<unsigned>(random() % (format.fraction_bits - p.step_log2 + 1));
    p.sign_mode = static_cast<SignMode>(random() % 3);
    p.has_scales = random() % 2 == 0;
    p.halved = p.has_scales && random() % 2 == 0;
    p.columns = 1 + random() % 70;
    p.taps = 1 + random() % 10;
    p.inner = 1 + random() % 10;
    std::vector<Word> words(1 + random() % 300);
    for (Word& word : words) {
      word = random() % 4 == 0
                 ? Word{0}
                 : static_cast<Word>(random() >> (random() % 2 == 0 ? 64 - 8 * sizeof(Word) : 0));
    }
    ASSERT_NO_FATAL_FAILURE(setting.check(p, words));
  }
}

TEST(Scaled, ShortRunsAtAnyPlaceComeBack) {
  check_short_runs<std::uint16_t>(DType::bf16);
  check_short_runs<std::uint16_t>(DType::f16);
  check_short_runs<std::uint32_t>(DType::f32);
  check_short_runs<std::uint64_t>(DType::f64);
}

TEST(Scaled, EscapeRecordsTakeTheFewestWholeBytes) {
  ScaledParameters p;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    const FloatFormat format = float_format(dtype);
    for (p.kept = 0; p.kept <= format.fraction_bits; ++p.kept) {
      for (p.step_log2 = 0; p.step_log2 <= std::min(2u, p.kept); ++p.step_log2) {
        p.sign_mode = SignMode::raw;
        const unsigned bits = format.exponent_bits + p.step_log2 + format.fraction_bits - p.kept;
        EXPECT_EQ(escape_bytes(format, p), (bits + 7) / 8);
        p.sign_mode = SignMode::tap;
        EXPECT_EQ(escape_bytes(format, p), (bits + 1 + 7) / 8);
        EXPECT_LE(escape_bytes(format, p), 8u);
      }
    }
  }
}

TEST(Scaled, EscapeRecordsWithBitsBeyondTheirFieldsAreRefused) {
  ScaledParameters p;
  p.kept = 10;
  p.columns = 1;
  const Grid grid;
  const std::uint8_t symbol = static_cast<std::uint8_t>(p.escape_symbol());
  const std::uint16_t record = 0;
  for (const bool tap : {false, true}) {
    p.sign_mode = tap ? SignMode::tap : SignMode::raw;
    const std::uint8_t escape = static_cast<std::uint8_t>(p.escape_symbol());
    const ScaledRun run{float_format(DType::f16), &p, &grid, 0, 0, 1};
    std::uint16_t word = 0;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const Bytes escapes{static_cast<std::uint8_t>(byte)};  // 5 bits, with tap 6
      EXPECT_EQ(restore_scaled(run, &escape, &record, escapes.data(), &word),
                byte >> (5 + tap) == 0);
    }
  }
  EXPECT_EQ(symbol, 15);
}

/// What a hostile frame can ask for: any symbols of the alphabet, any records, any scales and base.
template <typename Word>
void check_hostile(DType dtype) {
  Setting setting(dtype, 5);
  auto& random = setting.random();
  const FloatFormat format = float_format(dtype);
  for (int trial = 0; trial < 1000; ++trial) {
    ScaledParameters p;
    p.step_log2 = static_cast<unsigned>(random() % 3);
    p.kept =
        p.step_log2 + static_cast<unsigned>(random() % (format.fraction_bits - p.step_log2 + 1));
    p.sign_mode = static_cast<SignMode>(random() % 3);
    p.has_scales = random() % 2 == 0;
    p.halved = p.has_scales && random() % 2 == 0;
    p.columns = 1 + random() % 40;
    p.taps = 1 + random() % ((std::uint64_t{1} << (random() % 62)));
    p.inner = 1 + random() % ((std::uint64_t{1} << (random() % 62)));
    p.window = static_cast<unsigned>(1 + random() % 62);
    const Grid grid = setting.draw_grid(p, 300);
    const std::int32_t base = static_cast<std::int32_t>(random() % 131073) - 65536;
    const ScaledRun run{format, &p, &grid, base, 0, 200};
    std::vector<std::uint8_t> symbols(run.n);
    std::vector<Word> records(run.n);
    const std::uint64_t record_mask = (std::uint64_t{1} << p.record_bits()) - 1;
    for (auto& symbol : symbols) symbol = static_cast<std::uint8_t>(random() % p.alphabet());
    for (Word& record : records) record = static_cast<Word>(random() & record_mask);
    const auto count =
        std::count(symbols.begin(), symbols.end(), static_cast<std::uint8_t>(p.escape_symbol()));
    Bytes escapes(static_cast<std::size_t>(count) * escape_bytes(format, p));
    for (auto& byte : escapes) byte = static_cast<std::uint8_t>(random() % 3 == 0 ? random() : 0);
    std::vector<Word> words(run.n);
    (void)restore_scaled(run, symbols.data(), records.data(), escapes.data(), words.data());
  }
}

TEST(Scaled, RestoringWhatNoEncoderWroteIsSafe) {
  check_hostile<std::uint16_t>(DType::bf16);
  check_hostile<std::uint16_t>(DType::f16);
  check_hostile<std::uint32_t>(DType::f32);
  check_hostile<std::uint64_t>(DType::f64);
}

}  // namespace
}  // namespace gradwire::predict
