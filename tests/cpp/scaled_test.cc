#include "stages/predict/scaled.h"

#include <random>

#include <gtest/gtest.h>

#include "base/float_format.h"
#include "stages/predict/residuals.h"
#include "stages/split/words.h"

namespace gradwire::predict {
namespace {

template <typename Word>
struct Result {
  std::vector<std::uint8_t> symbols;
  std::vector<Word> records;
  Bytes escapes;
};

std::int64_t floor_half(std::int64_t value) { return (value - (value & 1)) / 2; }

/// docs/format.md 3.3 to 3.5 word by word, in its own letters.
template <typename Word>
Result<Word> naive_apply(const ScaledRun& run, const std::vector<Word>& words, bool mapped) {
  const ScaledParameters& p = *run.parameters;
  const unsigned W = run.format.fraction_bits;
  const unsigned E = run.format.exponent_bits;
  const unsigned S = p.sign_mode == SignMode::raw ? 1 : 2;
  const unsigned V = p.window;
  Result<Word> out;
  std::vector<std::int64_t> q(words.size(), 0);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::uint64_t word = words[i];
    const std::uint64_t sign = word >> (E + W);
    const std::uint64_t e = word >> W & ((1u << E) - 1);
    const std::uint64_t f = word & ((std::uint64_t{1} << W) - 1);
    const std::uint64_t x = e << p.step_log2 | f >> (W - p.step_log2);
    const std::uint64_t index = run.first + i;
    const std::uint64_t row = (index + p.origin) / p.columns;
    const std::uint64_t column = (index + p.origin) % p.columns;
    std::int64_t prediction = 0;
    if (p.has_scales) {
      prediction = run.grid->row_scales[row] + run.grid->column_scales[column];
      if (p.halved) prediction = floor_half(prediction + 1);
    }
    std::uint64_t guess = 0;
    std::int64_t carried = 0;
    if (p.sign_mode == SignMode::rank_one) {
      guess = run.grid->row_signs[row] ^ run.grid->column_signs[column];
    }
    if (p.sign_mode == SignMode::tap && index / p.inner % p.taps != 0 && i >= p.inner) {
      guess = words[i - p.inner] >> (E + W);
      carried = floor_half(q[i - p.inner] + 1);
    }
    const std::uint64_t kept_low =
        (f >> (W - p.kept)) & ((std::uint64_t{1} << (p.kept - p.step_log2)) - 1);
    out.records.push_back(static_cast<Word>(S == 1 ? kept_low << 1 | sign : kept_low));
    if (word == 0 && (p.has_zero || mapped)) {
      out.symbols.push_back(static_cast<std::uint8_t>(S * V));
      continue;
    }
    const std::int64_t d = static_cast<std::int64_t>(x) - prediction - carried;
    const std::uint64_t dropped = f & ((std::uint64_t{1} << (W - p.kept)) - 1);
    if (word != 0 && d >= run.base && d < run.base + static_cast<std::int64_t>(V) && dropped == 0) {
      const auto t = static_cast<std::uint64_t>(d - run.base);
      out.symbols.push_back(static_cast<std::uint8_t>(S * t + (S == 2 ? sign ^ guess : 0)));
      q[i] = static_cast<std::int64_t>(x) - prediction;
      continue;
    }
    out.symbols.push_back(static_cast<std::uint8_t>(S * V + 1));
    std::uint64_t record = (x << (W - p.kept) | dropped) << (S - 1) | (S == 2 ? sign : 0);
    const unsigned bits = E + p.step_log2 + W - p.kept + S - 1;
    for (unsigned b = 0; b < bits; b += 8, record >>= 8) {
      out.escapes.push_back(static_cast<std::uint8_t>(record));
    }
  }
  return out;
}

template <typename Word>
void expect_inverse(const ScaledRun& run, const std::vector<Word>& words, bool mapped) {
  const ScaledParameters& p = *run.parameters;
  SCOPED_TRACE(testing::Message() << "E " << run.format.exponent_bits << " kept " << p.kept
                                  << " step_log2 " << p.step_log2 << " window " << p.window
                                  << " base " << run.base << " scales " << p.has_scales << p.halved
                                  << " signs " << static_cast<int>(p.sign_mode) << " zero "
                                  << p.has_zero << mapped << " columns " << p.columns << " origin "
                                  << p.origin << " taps " << p.taps << " x " << p.inner << " first "
                                  << run.first);
  const Result<Word> expected = naive_apply(run, words, mapped);
  Result<Word> found{std::vector<std::uint8_t>(run.n), std::vector<Word>(run.n), {}};
  const std::size_t escapes = apply_scaled(run, words.data(), mapped, found.symbols.data(),
                                           found.records.data(), found.escapes);
  ASSERT_EQ(escapes * escape_bytes(run.format, p), found.escapes.size());
  ASSERT_TRUE(found.symbols == expected.symbols);
  ASSERT_TRUE(found.records == expected.records);
  ASSERT_TRUE(found.escapes == expected.escapes);
  std::vector<Word> back(run.n, static_cast<Word>(~Word{0}));
  ASSERT_TRUE(restore_scaled(run, found.symbols.data(), found.records.data(), found.escapes.data(),
                             back.data()));
  ASSERT_TRUE(back == words);
}

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

class Setting {
 public:
  Setting(DType dtype, std::uint64_t seed) : format_(float_format(dtype)), random_(seed) {}

  /// Draws what `parameters` leaves open, and a grid for it, then checks a run.
  template <typename Word>
  void check(ScaledParameters p, const std::vector<Word>& words) {
    p.window = p.sign_mode == SignMode::raw && random_() % 2 == 0
                   ? 14
                   : static_cast<unsigned>(1 + random_() % 62);
    p.has_zero = random_() % 2 == 0;
    p.origin = random_() % p.columns;
    Grid grid = draw_grid(p, words.size() + 3 * 65536);
    const auto base = static_cast<std::int32_t>(
        random_() % (std::uint64_t{1} << (format_.exponent_bits + p.step_log2)));
    const std::uint64_t first = random_() % 3 * 65536;
    const std::int32_t centre = p.has_scales ? static_cast<std::int32_t>(random_() % 9) - 4 : base;
    const ScaledRun run{format_, &p, &grid, centre, first, words.size()};
    ASSERT_NO_FATAL_FAILURE(expect_inverse(run, words, random_() % 2 == 0));
  }

  Grid draw_grid(const ScaledParameters& p, std::uint64_t elements) {
    const auto rows = static_cast<std::size_t>((elements + p.origin + p.columns - 1) / p.columns);
    const auto columns = static_cast<std::size_t>(p.columns);
    Grid grid;
    const int half = 1 << (format_.exponent_bits + p.step_log2 + p.halved - 2);
    if (p.has_scales) {
      grid.row_scales = draw<std::int16_t>(rows, -half / 2, 3 * half);
      grid.column_scales = draw<std::int16_t>(columns, -half / 2, 2 * half);
      grid.row_scales[0] = INT16_MAX;  // what a frame may say at most
      grid.column_scales[columns / 2] = INT16_MIN;
    }
    if (p.sign_mode == SignMode::rank_one) {
      grid.row_signs = draw<std::uint8_t>(rows, 0, 2);
      grid.column_signs = draw<std::uint8_t>(columns, 0, 2);
    }
    return grid;
  }

  std::mt19937_64& random() { return random_; }

 private:
  template <typename T>
  std::vector<T> draw(std::size_t n, int from, int to) {
    std::vector<T> values(n);
    for (T& value : values)
      value = static_cast<T>(from + static_cast<int>(random_() % static_cast<unsigned>(to - from)));
    return values;
  }

  FloatFormat format_;
  std::mt19937_64 random_;
};

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

TEST(Residuals, AreWhatTheSymbolsSayWithoutTheirWindow) {
  Setting setting(DType::f32, 3);
  auto& random = setting.random();
  std::vector<std::uint32_t> words(3000);
  for (auto& word : words)
    word = random() % 5 == 0
               ? 0
               : static_cast<std::uint32_t>(random() % 2 << 31 | (120 + random() % 8) << 23);
  for (const SignMode sign_mode : {SignMode::raw, SignMode::rank_one, SignMode::tap}) {
    ScaledParameters p;
    p.kept = 23;
    p.window = 62;
    p.has_zero = true;
    p.sign_mode = sign_mode;
    p.columns = 30;
    p.taps = 5;
    const Grid grid = setting.draw_grid(p, words.size());
    const std::int32_t base = sign_mode == SignMode::tap ? 50 : 100;
    const ScaledRun run{float_format(DType::f32), &p, &grid, base, 0, words.size()};
    std::vector<std::uint32_t> places(words.size());
    ScaledRun whole = run;
    whole.base = 0;
    collect_residuals(whole, words.data(), places.data());
    const auto half = static_cast<std::uint32_t>(residual_half(run.format, p));
    std::vector<std::uint8_t> symbols(words.size());
    std::vector<std::uint32_t> records(words.size());
    Bytes escapes;
    apply_scaled(run, words.data(), false, symbols.data(), records.data(), escapes);
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (symbols[i] == p.escape_symbol()) continue;
      if (words[i] == 0) {
        EXPECT_EQ(places[i], 4 * half);
      } else if (sign_mode == SignMode::raw) {
        EXPECT_EQ(places[i], 2 * (symbols[i] + static_cast<unsigned>(base) + half));
      } else if (escapes.empty()) {
        EXPECT_EQ(places[i], symbols[i] + 2 * (static_cast<unsigned>(base) + half));
      }
    }
  }
}

}  // namespace
}  // namespace gradwire::predict
