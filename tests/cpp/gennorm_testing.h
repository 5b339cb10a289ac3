// What the tests of generalised normal levels share.
#pragma once

#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "error_testing.h"
#include "lossy/gennorm/distribution.h"
#include "lossy/gennorm/gennorm.h"

namespace gradwire::lossy {

using testing::refusal;
using Values = std::vector<float>;

/// alpha |u|^(1 / beta), u a gamma variable of shape 1 / beta, with a random sign.
inline Values gennorm_values(double beta, double alpha, std::size_t n, unsigned seed = 1) {
  std::mt19937_64 random(seed);
  std::gamma_distribution<double> gamma(1 / beta);
  Values values(n);
  for (float& value : values) {
    const double size = alpha * std::pow(gamma(random), 1 / beta);
    value = static_cast<float>((random() & 1) != 0 ? size : -size);
  }
  return values;
}

struct Case {
  const char* name;
  GennormOptions options;
};

/// All grids, with the options that change what a grid does.
inline std::vector<Case> all_cases() {
  using enum Grid;
  return {
      {"lloyd 15", {.levels = 15}},
      {"lloyd 16 M 2", {.levels = 16, .weight_power = 2}},
      {"lloyd 2 in buckets", {.levels = 2, .bucket_values = 64}},
      {"lloyd 255 M 8", {.levels = 255, .weight_power = 8}},
      {"uniform 65", {.grid = uniform, .levels = 65}},
      {"uniform 4 in buckets", {.grid = uniform, .levels = 4, .step = 1, .bucket_values = 64}},
      {"floats 1 3 2", {.grid = float_bits}},
      {"floats 1 4 3 largest",
       {.grid = float_bits, .exponent_bits = 4, .fraction_bits = 3, .bias = FloatBias::largest}},
      {"floats 1 2 0 in buckets",
       {.grid = float_bits, .exponent_bits = 2, .fraction_bits = 0, .bucket_values = 64}},
      {"floats 1 7 0", {.grid = float_bits, .exponent_bits = 7, .fraction_bits = 0}},
      {"floats 1 1 6", {.grid = float_bits, .exponent_bits = 1, .fraction_bits = 6}},
  };
}

inline GennormSymbols quantised(const Values& values, const GennormOptions& options) {
  GennormSymbols out;
  EXPECT_TRUE(quantise(values, options, out));
  return out;
}

inline Values restored(const GennormSymbols& symbols, const GennormOptions& options) {
  Values values(symbols.symbols.size());
  dequantise(symbols, options, values);
  return values;
}

/// |Q(x) - x|^2 / |x|^2.
inline double relative_error(const Values& values, const Values& back) {
  double error = 0;
  double square = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    error += std::pow(double{back[i]} - double{values[i]}, 2);
    square += std::pow(double{values[i]}, 2);
  }
  return error / square;
}

}  // namespace gradwire::lossy
