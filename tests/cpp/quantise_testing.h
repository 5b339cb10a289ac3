// What the tests of quantisers share.
#pragma once

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "error_testing.h"
#include "lossy/quantise/quantise.h"

namespace gradwire::lossy {

using testing::refusal;
using Values = std::vector<float>;
using enum QuantiserKind;

struct Case {
  const char* name;
  QuantiseOptions options;
};

/// All kinds, with the options that change what a kind does.
inline std::vector<Case> all_cases() {
  return {
      {"uniform127", {.bucket_values = 64}},
      {"uniform7", {.levels = 7, .bucket_values = 48}},
      {"uniform7 l2", {.levels = 7, .bucket_values = 64, .norm = Norm::l2}},
      {"uniform1 of all", {.levels = 1, .bucket_values = 0}},
      {"uniform32767", {.levels = 32767, .bucket_values = 64}},
      {"uniform7 nearest", {.levels = 7, .bucket_values = 64, .rounding = Rounding::nearest}},
      {"uniform300 l2 nearest",
       {.levels = 300, .bucket_values = 64, .norm = Norm::l2, .rounding = Rounding::nearest}},
      {"ternary", {.kind = ternary, .bucket_values = 64}},
      {"ternary clipped", {.kind = ternary, .bucket_values = 0, .clip_deviations = 2.5F}},
      {"sign l1", {.kind = sign, .bucket_values = 64, .norm = Norm::l1}},
      {"sign l2", {.kind = sign, .bucket_values = 0, .norm = Norm::l2}},
      {"natural", {.kind = natural}},
      {"bf16", {.kind = bf16}},
      {"f16", {.kind = f16}},
      {"e4m3", {.kind = e4m3, .bucket_values = 64}},
      {"e5m2", {.kind = e5m2, .bucket_values = 0}},
  };
}

/// The same values on every computer, between -1 and 1, many of them small.
inline Values some_values(std::size_t n, std::uint64_t seed) {
  const RandomKey key(seed, 0);
  Values values(n);
  for (std::size_t i = 0; i < n; ++i) {
    const float unit = 2 * random_unit(key, static_cast<std::uint32_t>(i)) - 1;
    values[i] = unit * unit * unit;
  }
  return values;
}

inline Quantised quantised(const Values& values, const QuantiseOptions& options,
                           const Draws& draws = {}) {
  Quantised out;
  EXPECT_TRUE(quantise(values, options, draws, out));
  return out;
}

inline Quantised quantised(const Values& values, const QuantiseOptions& options, const Draws& draws,
                           const Values& scales) {
  Quantised out;
  EXPECT_TRUE(quantise(values, options, draws, scales, out));
  return out;
}

inline Values restored(const Quantised& quantised, const QuantiseOptions& options) {
  Values values(quantised.size());
  dequantise(quantised, options, values);
  return values;
}

inline std::vector<std::uint32_t> symbols_of(const Quantised& quantised) {
  return std::visit(
      [](const auto& symbols) {
        return std::vector<std::uint32_t>(symbols.begin(), symbols.end());
      },
      quantised.symbols);
}

}  // namespace gradwire::lossy
