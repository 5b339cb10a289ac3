// Gradients for the tests of selectors, and what they are compared with.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "base/counter_random.h"
#include "lossy/select/magnitude.h"
#include "lossy/select/select.h"

namespace gradwire::lossy {

inline constexpr Selector kSelectors[] = {Selector::all,   Selector::threshold,
                                          Selector::top_k, Selector::sampled_top_k,
                                          Selector::sidco, Selector::random_k};

/// Uniform in (0, 1].
inline double uniform(std::uint64_t seed, std::uint64_t i) {
  return (static_cast<double>(random_bits(seed, i) >> 11) + 1) * 0x1p-53;
}

enum class Shape { laplace, gaussian, gamma, pareto };

/// A magnitude: exponential, half normal, gamma of shape 1/2, generalised Pareto of tail 0.3.
inline double magnitude_draw(Shape shape, std::uint64_t i) {
  const double u = uniform(1, i);
  const double normal = std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * uniform(2, i));
  switch (shape) {
    case Shape::laplace:
      return -std::log(u);
    case Shape::gaussian:
      return std::abs(normal);
    case Shape::gamma:
      return normal * normal;
    default:
      return (std::pow(u, -0.3) - 1) / 0.3;
  }
}

inline std::vector<float> draw(Shape shape, std::size_t n) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double sign = random_bits(3, i) % 2 == 0 ? 1e-3 : -1e-3;
    values[i] = static_cast<float>(sign * magnitude_draw(shape, i));
  }
  return values;
}

/// All bit patterns alike, or few of them: NaN, infinities, subnormals, ties.
inline std::vector<float> raw_values(std::size_t n, std::uint32_t mask, std::uint64_t seed) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    values[i] = std::bit_cast<float>(static_cast<std::uint32_t>(random_bits(seed, i)) & mask);
  }
  return values;
}

/// The `count` largest by sorting, ties to the lower index; ascending.
inline std::vector<std::uint32_t> naive_top_k(const std::vector<float>& values, std::size_t count) {
  std::vector<std::uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return magnitude(values[a]) > magnitude(values[b]);
  });
  order.resize(std::min(count, order.size()));
  std::sort(order.begin(), order.end());
  return order;
}

inline std::vector<std::uint32_t> selected(const std::vector<float>& values,
                                           const SelectOptions& options) {
  SidcoState state;
  SelectScratch scratch;
  Indices indices;
  select(values, options, state, scratch, indices);
  return {indices.begin(), indices.end()};
}

inline float half_to_float(std::uint16_t half) {
  const int exponent = half >> 10 & 31;
  const int fraction = half & 1023;
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                   : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  return half >> 15 != 0 ? -size : size;
}

/// All values of a file of tests/data, whose tensors have one dtype.
inline std::vector<float> sample_values(const std::string& name) {
  std::ifstream file(std::string(GRADWIRE_TESTS_DIR) + "/data/" + name + ".safetensors",
                     std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
  std::vector<float> values;
  if (bytes.size() < 8) return values;
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  const std::string header(bytes.data() + 8, length);
  const char* data = bytes.data() + 8 + length;
  const std::size_t size = bytes.size() - 8 - length;
  if (header.find("\"F32\"") != std::string::npos) {
    values.resize(size / 4);
    std::memcpy(values.data(), data, size);
    return values;
  }
  const bool is_half = header.find("\"F16\"") != std::string::npos;
  for (std::size_t at = 0; at + 2 <= size; at += 2) {
    std::uint16_t word = 0;
    std::memcpy(&word, data + at, 2);
    values.push_back(is_half ? half_to_float(word)
                             : std::bit_cast<float>(static_cast<std::uint32_t>(word) << 16));
  }
  return values;
}

}  // namespace gradwire::lossy
