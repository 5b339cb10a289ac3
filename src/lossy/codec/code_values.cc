#include "lossy/codec/code_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/clones.h"
#include "base/magnitude.h"

namespace gradwire::lossy {
namespace {

using enum QuantiserKind;

template <typename T>
void to_bytes(const std::vector<T>& words, Bytes& out) {
  out.resize(words.size() * sizeof(T));
  if (!words.empty()) std::memcpy(out.data(), words.data(), out.size());
}

void take_floats(std::span<const float> values, Bytes& out) {
  out.resize(values.size_bytes());
  if (!values.empty()) std::memcpy(out.data(), values.data(), out.size());
}

/// Octaves by which the largest value is moved to end just under 2^15, where f16 has its full
/// precision; 0 without values. Far from the smallest floats only, so that scaling is exact.
std::int32_t shift_of(std::span<const float> values) {
  const std::uint32_t largest = largest_magnitude_bits(values);
  if (largest == 0) return 0;
  int exponent = 0;
  std::frexp(std::bit_cast<float>(largest), &exponent);
  return exponent - 15;
}

GRADWIRE_CLONES void multiply(const float* values, std::size_t n, double power,
                              float* out) noexcept {
  for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<float>(double{values[i]} * power);
}

/// Times 2^-octaves, which a double has exactly.
void shift(std::span<const float> values, std::int32_t octaves, std::vector<float>& out) {
  out.resize(values.size());
  multiply(values.data(), values.size(), std::ldexp(1.0, -octaves), out.data());
}

/// Sign and exponent, as quantise.h has powers of two, to the bits of a bf16.
void powers_to_bf16(std::vector<std::uint16_t>& symbols) {
  for (std::uint16_t& symbol : symbols)
    symbol = static_cast<std::uint16_t>((symbol >> 8) << 15 | (symbol & 0xff) << 7);
}

ValueRule rule_of(const QuantiseOptions& options, const Quantised& quantised) {
  ValueRule rule;
  rule.bucket = options.bucket_values;
  switch (options.kind) {
    case uniform:
    case ternary:
    case sign:
      rule.form = ValueForm::levels;
      rule.levels = options.kind == uniform ? options.levels : 1;
      rule.step = options.kind == sign ? 2 : 1;
      rule.offset = rule.levels;
      rule.dtype = quantised.symbols.index() == 0 ? DType::u8 : DType::u16;
      break;
    case natural:
    case bf16:
      rule.dtype = DType::bf16;
      break;
    case f16:
      rule.dtype = DType::f16;
      break;
    case e4m3:
    case e5m2:
      rule.form = ValueForm::octets;
      rule.dtype = options.kind == e4m3 ? DType::f8_e4m3 : DType::f8_e5m2;
      break;
  }
  if (!rule.has_scales()) rule.bucket = 0;
  return rule;
}

bool code_exact(std::span<const float> values, Coded& coded) {
  coded.rule = {};
  take_floats(values, coded.symbols);
  return all_finite(values);
}

bool code_quantised(std::span<const float> values, const QuantiseOptions& options,
                    const Draws& draws, CodeMemory& memory, Coded& coded) {
  std::int32_t octaves = 0;
  if (options.kind == f16) {
    if (!all_finite(values)) return false;
    octaves = shift_of(values);
    shift(values, octaves, memory.shifted);
    values = memory.shifted;
  }
  if (!quantise(values, options, draws, memory.quantised)) return false;
  coded.rule = rule_of(options, memory.quantised);
  coded.rule.shift = octaves;
  if (options.kind == natural)
    powers_to_bf16(std::get<std::vector<std::uint16_t>>(memory.quantised.symbols));
  std::visit([&](const auto& symbols) { to_bytes(symbols, coded.symbols); },
             memory.quantised.symbols);
  coded.scales = memory.quantised.scales;
  return true;
}

bool code_levels(std::span<const float> values, const GennormOptions& options, CodeMemory& memory,
                 Coded& coded) {
  if (!quantise(values, options, memory.levels)) return false;
  coded.rule = {.form = ValueForm::table,
                .dtype = DType::u8,
                .table = *levels_of(options, memory.levels.model.level_row),
                .bucket = options.bucket_values};
  coded.symbols = memory.levels.symbols;
  coded.scales = memory.levels.scales;
  return true;
}

bool code_mantissas(std::span<const float> values, const MantissaOptions& options,
                    CodeMemory& memory, Coded& coded) {
  memory.shifted.resize(values.size());
  if (!round_mantissas(values, options, memory.shifted)) return false;
  coded.rule = {};
  take_floats(memory.shifted, coded.symbols);
  return true;
}

/// A function for each alternative of a variant.
template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

}  // namespace

void check_coding(const ValueCoding& coding) {
  std::visit(
      Overloaded{[](const ExactValues&) {}, [](const auto& options) { check_options(options); }},
      coding);
}

std::size_t bucket_of(const ValueCoding& coding) noexcept {
  if (const auto* options = std::get_if<QuantiseOptions>(&coding)) return options->bucket_values;
  if (const auto* options = std::get_if<GennormOptions>(&coding)) return options->bucket_values;
  return 0;
}

bool code_values(std::span<const float> values, const ValueCoding& coding, const Draws& draws,
                 CodeMemory& memory, Coded& coded) {
  coded.scales.clear();
  return std::visit(Overloaded{[&](const ExactValues&) { return code_exact(values, coded); },
                               [&](const QuantiseOptions& options) {
                                 return code_quantised(values, options, draws, memory, coded);
                               },
                               [&](const GennormOptions& options) {
                                 return code_levels(values, options, memory, coded);
                               },
                               [&](const MantissaOptions& options) {
                                 return code_mantissas(values, options, memory, coded);
                               }},
                    coding);
}

}  // namespace gradwire::lossy
