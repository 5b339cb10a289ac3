#include "exchange/addition.h"

#include <algorithm>
#include <bit>

#include "base/bytes.h"

namespace gradwire::exchange {
namespace {

// --- arithmetic of each type: load, round to the type, store -----------------------------------

struct F32 {
  using Wide = float;
  static constexpr std::size_t kBytes = 4;
  static float load(const std::uint8_t* src) noexcept { return gradwire::load<float>(src); }
  static float round(float value) noexcept { return value; }
  static void store(std::uint8_t* dst, float value) noexcept { gradwire::store(dst, value); }
};

struct F64 {
  using Wide = double;
  static constexpr std::size_t kBytes = 8;
  static double load(const std::uint8_t* src) noexcept { return gradwire::load<double>(src); }
  static double round(double value) noexcept { return value; }
  static void store(std::uint8_t* dst, double value) noexcept { gradwire::store(dst, value); }
};

/// To the nearest, ties to even; a NaN becomes the quiet one that PyTorch makes.
std::uint16_t to_bf16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fc0;
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

struct BF16 {
  using Wide = float;
  static constexpr std::size_t kBytes = 2;
  static float load(const std::uint8_t* src) noexcept {
    return std::bit_cast<float>(std::uint32_t{gradwire::load<std::uint16_t>(src)} << 16);
  }
  static float round(float value) noexcept {
    return std::bit_cast<float>(std::uint32_t{to_bf16(value)} << 16);
  }
  static void store(std::uint8_t* dst, float value) noexcept {
    gradwire::store(dst, to_bf16(value));
  }
};

float from_f16(std::uint16_t half) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000) << 16;
  const std::uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00)
    return std::bit_cast<float>(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
  if (magnitude >= 0x400) return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000));
  const float value = static_cast<float>(magnitude) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
}

/// To the nearest, ties to even; what is too large becomes infinite, a NaN the quiet one.
std::uint16_t to_f16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<std::uint16_t>(sign | 0x7e00);
  if (magnitude >= 0x477ff000) return static_cast<std::uint16_t>(sign | 0x7c00);
  if (magnitude < 0x38800000) {  // subnormal: adding 1/2 rounds to multiples of 2^-24
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(sum) - 0x3f000000));
  }
  const std::uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000) >> 13));
}

struct F16 {
  using Wide = float;
  static constexpr std::size_t kBytes = 2;
  static float load(const std::uint8_t* src) noexcept {
    return from_f16(gradwire::load<std::uint16_t>(src));
  }
  static float round(float value) noexcept { return from_f16(to_f16(value)); }
  static void store(std::uint8_t* dst, float value) noexcept {
    gradwire::store(dst, to_f16(value));
  }
};

template <typename Function>
void with_type(DType dtype, const Function& function) {
  switch (dtype) {
    case DType::bf16:
      return function(BF16());
    case DType::f16:
      return function(F16());
    case DType::f64:
      return function(F64());
    default:
      return function(F32());
  }
}

template <typename Wide>
Wide factor_of(const AdditionRule& rule) noexcept {
  return rule.mean ? Wide{1} / static_cast<Wide>(rule.world) : Wide{1};
}

/// Ranks in the order in which they are added, and whether each sum is rounded to the type.
template <typename Type>
void add_run(std::span<const std::uint8_t* const> values, unsigned start, int direction,
             bool round_each, typename Type::Wide factor, std::size_t begin, std::size_t end,
             std::uint8_t* out) {
  using Wide = typename Type::Wide;
  const auto world = static_cast<unsigned>(values.size());
  const auto rank_at = [&](unsigned k) {
    return direction > 0 ? (start + k) % world : (start + world - k % world) % world;
  };
  const auto scaled = [&](unsigned rank, std::size_t i) {
    const Wide value = Type::load(values[rank] + i * Type::kBytes);
    return round_each && factor != Wide{1} ? Type::round(value * factor) : value;
  };
  for (std::size_t i = begin; i < end; ++i) {
    Wide sum = scaled(rank_at(0), i);
    for (unsigned k = 1; k < world; ++k) {
      sum = sum + scaled(rank_at(k), i);
      if (round_each) sum = Type::round(sum);
    }
    Type::store(out + i * Type::kBytes, sum);
  }
}

}  // namespace

std::uint64_t gloo_chunk_elements(DType dtype, std::uint64_t n, unsigned world) noexcept {
  const std::uint64_t width = element_size(dtype);
  const std::uint64_t bytes = n * width;
  const std::uint64_t cap = (std::uint64_t{1} << 20) / width * width;
  const std::uint64_t least = std::max<std::uint64_t>((bytes + cap - 1) / cap, 2 * world);
  const std::uint64_t segments = (least + world - 1) / world * world;
  const std::uint64_t segment = ((bytes + segments - 1) / segments + width - 1) / width;
  return segment * segments / world;
}

void add_values(const AdditionRule& rule, std::uint64_t first,
                std::span<const std::uint8_t* const> values, std::size_t n, std::uint8_t* out) {
  with_type(rule.dtype, [&](auto type) {
    using Type = decltype(type);
    using Wide = typename Type::Wide;
    if (rule.order == SumOrder::rank) return add_run<Type>(values, 0, 1, false, Wide{1}, 0, n, out);
    const std::uint64_t chunk = std::max<std::uint64_t>(
        gloo_chunk_elements(rule.dtype, rule.bucket_elements, rule.world), 1);
    for (std::size_t begin = 0; begin < n;) {
      const std::uint64_t c = (first + begin) / chunk;
      const auto end =
          static_cast<std::size_t>(std::min<std::uint64_t>(n, (c + 1) * chunk - first));
      const auto start = static_cast<unsigned>((c + rule.world - 1) % rule.world);
      add_run<Type>(values, start, -1, true, factor_of<Wide>(rule), begin, end, out);
      begin = end;
    }
  });
}

void scale(const AdditionRule& rule, std::uint8_t* values, std::size_t n) {
  if (rule.order != SumOrder::rank || !rule.mean || rule.world == 1) return;
  with_type(rule.dtype, [&](auto type) {
    using Type = decltype(type);
    const auto factor = factor_of<typename Type::Wide>(rule);
    for (std::size_t i = 0; i < n; ++i) {
      std::uint8_t* const at = values + i * Type::kBytes;
      Type::store(at, Type::load(at) * factor);
    }
  });
}

}  // namespace gradwire::exchange
