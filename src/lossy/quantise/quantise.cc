#include "lossy/quantise/quantise.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/buckets.h"
#include "base/fail.h"
#include "base/magnitude.h"
#include "lossy/quantise/levels.h"
#include "lossy/quantise/narrow.h"
#include "lossy/quantise/scales.h"

namespace gradwire::lossy {
namespace {

using enum QuantiserKind;

float to_scale(double scale) noexcept {
  return static_cast<float>(std::min<double>(scale, std::numeric_limits<float>::max()));
}

/// The scale of one bucket; not finite if a value is not.
float measure_bucket(const float* values, std::size_t n, const QuantiseOptions& options) noexcept {
  const auto count = static_cast<double>(n);
  const auto largest = std::bit_cast<float>(largest_magnitude_bits({values, n}));
  if (!std::isfinite(largest)) return largest;
  switch (options.kind) {
    case uniform:
      return options.norm == Norm::max ? largest : to_scale(std::sqrt(sum_of_squares(values, n)));
    case sign:
      return to_scale(options.norm == Norm::l1 ? sum_of_magnitudes(values, n) / count
                                               : std::sqrt(sum_of_squares(values, n) / count));
    case ternary:
      if (options.clip_deviations == 0) return largest;
      return to_scale(std::min(
          double{largest}, options.clip_deviations * std::sqrt(sum_of_squares(values, n) / count)));
    default:
      return largest;
  }
}

template <typename Symbol>
std::vector<Symbol>& symbols_of(Quantised& out) {
  if (!std::holds_alternative<std::vector<Symbol>>(out.symbols))
    out.symbols.template emplace<std::vector<Symbol>>();
  return std::get<std::vector<Symbol>>(out.symbols);
}

template <typename Symbol>
void quantise_levels(std::span<const float> values, const QuantiseOptions& options,
                     const Draws& draws, Quantised& out) {
  std::vector<Symbol>& symbols = symbols_of<Symbol>(out);
  symbols.resize(values.size());
  const bool is_uniform = options.kind == uniform;
  const auto levels = is_uniform ? static_cast<std::int32_t>(options.levels) : 1;
  const bool random = !is_uniform || options.rounding == Rounding::random;
  for_each_bucket(
      values.size(), options.bucket_values, [&](std::size_t bucket, std::size_t at, std::size_t n) {
        const float scale = out.scales[bucket];
        for_each_key(
            draws, at, n,
            [&](std::size_t begin, std::size_t m, const RandomKey& key, std::uint32_t first) {
              to_levels(values.data() + begin, {m, scale, levels, random, key, first},
                        symbols.data() + begin);
            });
      });
}

void quantise_octets(std::span<const float> values, const QuantiseOptions& options,
                     Quantised& out) {
  std::vector<std::uint8_t>& symbols = symbols_of<std::uint8_t>(out);
  symbols.resize(values.size());
  const auto encode = options.kind == e4m3 ? to_e4m3 : to_e5m2;
  for_each_bucket(values.size(), options.bucket_values,
                  [&](std::size_t bucket, std::size_t at, std::size_t n) {
                    encode(values.data() + at, n, out.scales[bucket], symbols.data() + at);
                  });
}

void quantise_words(std::span<const float> values, const QuantiseOptions& options,
                    const Draws& draws, Quantised& out) {
  std::vector<std::uint16_t>& symbols = symbols_of<std::uint16_t>(out);
  symbols.resize(values.size());
  if (options.kind == bf16) return to_bf16(values.data(), values.size(), symbols.data());
  if (options.kind == f16) return to_f16(values.data(), values.size(), symbols.data());
  for_each_key(draws, 0, values.size(),
               [&](std::size_t at, std::size_t n, const RandomKey& key, std::uint32_t first) {
                 to_powers(values.data() + at, n, key, first, symbols.data() + at);
               });
}

/// Symbols of finite values, with the scales that `out` has.
void fill_symbols(std::span<const float> values, const QuantiseOptions& options, const Draws& draws,
                  Quantised& out) {
  out.terms = 1;
  switch (options.kind) {
    case uniform:
      if (traits_of(options).symbol_bytes == 2)
        return quantise_levels<std::uint16_t>(values, options, draws, out);
      return quantise_levels<std::uint8_t>(values, options, draws, out);
    case ternary:
      return quantise_levels<std::uint8_t>(values, options, draws, out);
    case sign: {
      std::vector<std::uint8_t>& symbols = symbols_of<std::uint8_t>(out);
      symbols.resize(values.size());
      return to_signs(values.data(), values.size(), symbols.data());
    }
    case e4m3:
    case e5m2:
      return quantise_octets(values, options, out);
    default:
      return quantise_words(values, options, draws, out);
  }
}

bool refused(Quantised& out) {
  std::visit([](auto& symbols) { symbols.clear(); }, out.symbols);
  out.scales.clear();
  out.terms = 1;
  return false;
}

}  // namespace

std::size_t Quantised::size() const noexcept {
  return std::visit([](const auto& vector) { return vector.size(); }, symbols);
}

bool measure_scales(std::span<const float> values, const QuantiseOptions& options,
                    std::vector<float>& scales) {
  check_options(options);
  scales.clear();
  if (scale_count(options, values.size()) == 0) return all_finite(values);
  for_each_bucket(values.size(), options.bucket_values,
                  [&](std::size_t, std::size_t at, std::size_t n) {
                    scales.push_back(measure_bucket(values.data() + at, n, options));
                  });
  if (std::ranges::all_of(scales, [](float scale) { return std::isfinite(scale); })) return true;
  scales.clear();
  return false;
}

bool quantise(std::span<const float> values, const QuantiseOptions& options, const Draws& draws,
              Quantised& out) {
  if (!measure_scales(values, options, out.scales)) return refused(out);
  fill_symbols(values, options, draws, out);
  return true;
}

bool quantise(std::span<const float> values, const QuantiseOptions& options, const Draws& draws,
              std::span<const float> scales, Quantised& out) {
  check_options(options);
  const std::size_t expected = scale_count(options, values.size());
  if (scales.size() != expected)
    fail(ErrorKind::invalid_argument, "quantise: {} scales given for {} values, {} needed",
         scales.size(), values.size(), expected);
  for (std::size_t i = 0; i < expected; ++i)
    if (!(scales[i] >= 0 && std::isfinite(scales[i])))
      fail(ErrorKind::invalid_argument,
           "quantise: scale {} is {}; it must be finite and not negative", i, scales[i]);
  if (!all_finite(values)) return refused(out);
  out.scales.assign(scales.begin(), scales.end());
  fill_symbols(values, options, draws, out);
  return true;
}

}  // namespace gradwire::lossy
