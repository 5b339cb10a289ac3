// The side that receives symbols.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/buckets.h"
#include "base/clones.h"
#include "base/fail.h"
#include "lossy/quantise/levels.h"
#include "lossy/quantise/narrow.h"
#include "lossy/quantise/quantise.h"

namespace gradwire::lossy {
namespace {

using enum QuantiserKind;
using Octets = std::vector<std::uint8_t>;
using Words = std::vector<std::uint16_t>;

template <typename Symbol>
GRADWIRE_CLONES std::uint32_t largest_symbol(const Symbol* symbols, std::size_t n) noexcept {
  Symbol most = 0;
  for (std::size_t i = 0; i < n; ++i) most = std::max(most, symbols[i]);
  return most;
}

/// Whether a power of two has the exponent field of infinities.
GRADWIRE_CLONES bool has_infinite_power(const std::uint16_t* symbols, std::size_t n) noexcept {
  unsigned found = 0;
  for (std::size_t i = 0; i < n; ++i) found |= (symbols[i] & 0xff) == 0xff ? 1u : 0u;
  return found != 0;
}

void check_scales(const Quantised& quantised, const QuantiseOptions& options) {
  const std::size_t expected = scale_count(options, quantised.size());
  if (quantised.scales.size() != expected)
    fail(ErrorKind::corrupt, "dequantise: {} scales for {} values, {} expected",
         quantised.scales.size(), quantised.size(), expected);
  for (std::size_t i = 0; i < expected; ++i)
    if (const float scale = quantised.scales[i]; !(scale >= 0 && std::isfinite(scale)))
      fail(ErrorKind::corrupt, "dequantise: scale {} is {}; it must be finite and not negative", i,
           scale);
}

void check_symbols(const Quantised& quantised, const QuantiseOptions& options) {
  const std::uint32_t below = alphabet(options, quantised.terms);
  const std::uint32_t largest =
      std::visit([](const auto& symbols) { return largest_symbol(symbols.data(), symbols.size()); },
                 quantised.symbols);
  if (largest >= below)
    fail(ErrorKind::corrupt, "dequantise: symbol {} found, the largest allowed is {}", largest,
         below - 1);
  if (options.kind != natural) return;
  const auto& words = std::get<Words>(quantised.symbols);
  if (has_infinite_power(words.data(), words.size()))
    fail(ErrorKind::corrupt, "dequantise: a power of two has the exponent field 255");
}

void check_quantised(const Quantised& quantised, const QuantiseOptions& options) {
  check_options(options);
  const QuantiserTraits traits = traits_of(options);
  const unsigned bytes = std::holds_alternative<Octets>(quantised.symbols) ? 1 : 2;
  if (!traits.additive && bytes != traits.symbol_bytes)
    fail(ErrorKind::corrupt, "dequantise: symbols of {} bytes, {} expected", bytes,
         traits.symbol_bytes);
  const bool terms_fit = quantised.terms != 0 && alphabet(options, quantised.terms) <= 65536;
  if (!terms_fit || (!traits.additive && quantised.terms != 1))
    fail(ErrorKind::corrupt, "dequantise: {} terms are no sum of this quantiser", quantised.terms);
  check_scales(quantised, options);
  check_symbols(quantised, options);
}

LevelMap level_map(const QuantiseOptions& options, std::uint32_t terms) noexcept {
  const auto count = static_cast<std::int32_t>(terms);
  if (options.kind == sign) return {2, count, 1};
  const auto levels = options.kind == uniform ? static_cast<std::int32_t>(options.levels) : 1;
  return {1, count * levels, levels};
}

void restore_levels(const Quantised& quantised, const QuantiseOptions& options, float* out) {
  const LevelMap map = level_map(options, quantised.terms);
  std::visit(
      [&](const auto& symbols) {
        for_each_bucket(symbols.size(), options.bucket_values,
                        [&](std::size_t bucket, std::size_t at, std::size_t n) {
                          from_levels(symbols.data() + at, n, map, quantised.scales[bucket],
                                      out + at);
                        });
      },
      quantised.symbols);
}

void restore_octets(const Quantised& quantised, const QuantiseOptions& options, float* out) {
  const auto decode = options.kind == e4m3 ? from_e4m3 : from_e5m2;
  const auto& symbols = std::get<Octets>(quantised.symbols);
  for_each_bucket(symbols.size(), options.bucket_values,
                  [&](std::size_t bucket, std::size_t at, std::size_t n) {
                    decode(symbols.data() + at, n, quantised.scales[bucket], out + at);
                  });
}

void restore_words(const Quantised& quantised, QuantiserKind kind, float* out) {
  const auto& symbols = std::get<Words>(quantised.symbols);
  if (kind == bf16) return from_bf16(symbols.data(), symbols.size(), out);
  if (kind == f16) return from_f16(symbols.data(), symbols.size(), out);
  from_powers(symbols.data(), symbols.size(), out);
}

void check_same_shape(const Quantised& sum, const Quantised& part) {
  if (sum.size() != part.size())
    fail(ErrorKind::transport, "add: {} symbols cannot be added to {}", part.size(), sum.size());
  for (std::size_t i = 0; i < sum.scales.size(); ++i)
    if (std::memcmp(&sum.scales[i], &part.scales[i], sizeof(float)) != 0)
      fail(ErrorKind::transport, "add: scale {} is {} here and {} there; ranks must agree on it", i,
           sum.scales[i], part.scales[i]);
}

template <typename Sum, typename Part>
GRADWIRE_CLONES void add_symbols(Sum* sum, const Part* part, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; ++i) sum[i] = static_cast<Sum>(sum[i] + part[i]);
}

}  // namespace

void dequantise(const Quantised& quantised, const QuantiseOptions& options, std::span<float> out) {
  check_quantised(quantised, options);
  if (out.size() != quantised.size())
    fail(ErrorKind::corrupt, "dequantise: {} symbols for {} values", quantised.size(), out.size());
  if (traits_of(options).additive) return restore_levels(quantised, options, out.data());
  if (traits_of(options).symbol_bytes == 1) return restore_octets(quantised, options, out.data());
  restore_words(quantised, options.kind, out.data());
}

void add(Quantised& sum, const Quantised& part, const QuantiseOptions& options) {
  check_quantised(sum, options);
  check_quantised(part, options);
  if (!traits_of(options).additive)
    fail(ErrorKind::invalid_argument, "add: symbols of this quantiser cannot be summed");
  check_same_shape(sum, part);
  const std::uint32_t terms = sum.terms + part.terms;  // at most 65535 each
  const std::uint32_t below = alphabet(options, terms);
  if (below > 65536)
    fail(ErrorKind::limit, "add: the sum of {} ranks does not fit symbols of two bytes", terms);
  if (auto* octets = std::get_if<Octets>(&sum.symbols); octets != nullptr && below > 256)
    sum.symbols = Words(octets->begin(), octets->end());
  // The result fits: symbols of both were below their alphabets.
  std::visit([](auto& to, const auto& from) { add_symbols(to.data(), from.data(), from.size()); },
             sum.symbols, part.symbols);
  sum.terms = terms;
}

}  // namespace gradwire::lossy
