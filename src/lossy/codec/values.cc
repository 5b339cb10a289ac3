// Symbols to values (docs/format.md 11.3).
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/buckets.h"
#include "base/clones.h"
#include "base/fail.h"
#include "base/magnitude.h"
#include "lossy/codec/body.h"
#include "lossy/codec/elements.h"
#include "lossy/quantise/levels.h"
#include "lossy/quantise/narrow.h"

namespace gradwire::lossy {
namespace {

/// Symbols lie in bytes of any alignment.
template <typename T>
std::vector<T> aligned(ByteSpan symbols) {
  std::vector<T> words(symbols.size() / sizeof(T));
  if (!words.empty()) std::memcpy(words.data(), symbols.data(), words.size() * sizeof(T));
  return words;
}

/// Times a power of two, of which a double has all: one rounding, and never to an infinity.
GRADWIRE_CLONES void shift_all(float* values, std::size_t n, double power) noexcept {
  constexpr double kLargest = std::numeric_limits<float>::max();
  for (std::size_t i = 0; i < n; ++i) {
    const double value = static_cast<double>(values[i]) * power;
    values[i] = static_cast<float>(std::min(std::max(value, -kLargest), kLargest));
  }
}

void restore_floats(const ValueRule& rule, ByteSpan symbols, std::span<float> values) {
  if (rule.dtype == DType::f32) {
    if (!values.empty()) std::memcpy(values.data(), symbols.data(), symbols.size());
  } else {
    const auto halves = aligned<std::uint16_t>(symbols);
    (rule.dtype == DType::bf16 ? from_bf16 : from_f16)(halves.data(), halves.size(), values.data());
  }
  if (!all_finite(values)) fail(ErrorKind::corrupt, "values: an element that is infinite or NaN");
  if (rule.shift != 0) shift_all(values.data(), values.size(), std::ldexp(1.0, rule.shift));
}

template <typename Symbol>
void restore_levels(const ValueRule& rule, std::span<const Symbol> symbols,
                    std::span<const float> scales, std::span<float> values) {
  const LevelMap map{static_cast<std::int32_t>(rule.step), static_cast<std::int32_t>(rule.offset),
                     static_cast<std::int32_t>(rule.levels)};
  const auto ends = std::minmax_element(symbols.begin(), symbols.end());
  const auto level = [&](Symbol symbol) {
    return static_cast<std::int64_t>(rule.step) * symbol - rule.offset;
  };
  if (level(*ends.first) < -std::int64_t{rule.levels} || level(*ends.second) > rule.levels)
    fail(ErrorKind::corrupt, "values: a level beyond {} of {}", rule.levels, rule.levels);
  for_each_bucket(symbols.size(), static_cast<std::size_t>(rule.bucket),
                  [&](std::size_t bucket, std::size_t at, std::size_t n) {
                    from_levels(symbols.data() + at, n, map, scales[bucket], values.data() + at);
                  });
}

/// Whether a symbol of 8 bits is no finite number.
bool is_special(DType dtype, std::uint8_t symbol) noexcept {
  const unsigned magnitude = symbol & 0x7fu;
  return dtype == DType::f8_e4m3 ? magnitude == 0x7f : magnitude >= 0x7c;
}

void restore_octets(const ValueRule& rule, ByteSpan symbols, std::span<const float> scales,
                    std::span<float> values) {
  if (std::ranges::any_of(symbols, [&](std::uint8_t s) { return is_special(rule.dtype, s); }))
    fail(ErrorKind::corrupt, "values: a symbol that is infinite or NaN");
  const auto decode = rule.dtype == DType::f8_e4m3 ? from_e4m3 : from_e5m2;
  for_each_bucket(symbols.size(), static_cast<std::size_t>(rule.bucket),
                  [&](std::size_t bucket, std::size_t at, std::size_t n) {
                    decode(symbols.data() + at, n, scales[bucket], values.data() + at);
                  });
}

GRADWIRE_CLONES void look_up(const float* table, const std::uint8_t* symbols, std::size_t n,
                             float scale, float* values) noexcept {
  constexpr float kLargest = std::numeric_limits<float>::max();
  for (std::size_t i = 0; i < n; ++i)
    values[i] = std::min(std::max(table[symbols[i]] * scale, -kLargest), kLargest);
}

void restore_entries(const ValueRule& rule, ByteSpan symbols, std::span<const float> scales,
                     std::span<float> values) {
  const unsigned largest = *std::max_element(symbols.begin(), symbols.end());
  if (largest >= rule.table.size())
    fail(ErrorKind::corrupt, "values: symbol {} found, the table has {} entries", largest,
         rule.table.size());
  for_each_bucket(symbols.size(), static_cast<std::size_t>(rule.bucket),
                  [&](std::size_t bucket, std::size_t at, std::size_t n) {
                    look_up(rule.table.data(), symbols.data() + at, n, scales[bucket],
                            values.data() + at);
                  });
}

void check_scales(const ValueRule& rule, std::span<const float> scales, std::size_t n) {
  if (scales.size() != rule.scale_count(n))
    fail(ErrorKind::corrupt, "bucket_scales: {} for {} values, {} expected", scales.size(), n,
         rule.scale_count(n));
  for (std::size_t i = 0; i < scales.size(); ++i)
    if (!(scales[i] >= 0 && std::isfinite(scales[i])))
      fail(ErrorKind::corrupt, "bucket_scales: scale {} is {}; finite ones from 0 are allowed", i,
           scales[i]);
}

}  // namespace

std::uint64_t ValueRule::scale_count(std::uint64_t k) const noexcept {
  if (!has_scales() || k == 0) return 0;
  return bucket == 0 ? 1 : (k + bucket - 1) / bucket;
}

void restore_values(const ValueRule& rule, ByteSpan symbols, std::span<const float> scales,
                    std::span<float> values) {
  if (values.empty()) return;
  check_scales(rule, scales, values.size());
  switch (rule.form) {
    case ValueForm::floats:
      return restore_floats(rule, symbols, values);
    case ValueForm::levels:
      if (rule.dtype == DType::u8) return restore_levels(rule, symbols, scales, values);
      return restore_levels<std::uint16_t>(rule, aligned<std::uint16_t>(symbols), scales, values);
    case ValueForm::octets:
      return restore_octets(rule, symbols, scales, values);
    case ValueForm::table:
      return restore_entries(rule, symbols, scales, values);
  }
}

void place_values(const Selected& selected, DType dtype, std::span<std::uint8_t> elements) {
  if (selected.all) return from_floats(selected.values, dtype, elements);
  std::ranges::fill(elements, std::uint8_t{0});
  for (std::size_t i = 0; i < selected.values.size(); ++i)
    put_element(selected.values[i], dtype, selected.indices[i], elements.data());
}

}  // namespace gradwire::lossy
