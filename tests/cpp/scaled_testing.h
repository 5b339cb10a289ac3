// What tests of the scaled pipeline share: its definition word by word, and drawn settings that
// check a run against it.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "base/float_format.h"
#include "stages/predict/scaled.h"
#include "stages/split/words.h"

namespace gradwire::predict {

template <typename Word>
struct Result {
  std::vector<std::uint8_t> symbols;
  std::vector<Word> records;
  Bytes escapes;
};

inline std::int64_t floor_half(std::int64_t value) { return (value - (value & 1)) / 2; }

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

}  // namespace gradwire::predict
