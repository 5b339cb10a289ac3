#include "exchange/addition.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "exchange/rounding.h"

namespace gradwire::exchange {
namespace {

constexpr std::size_t kBlock = 512;  ///< elements whose sums are kept on the stack

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

/// a + b with the NaN written down: the first one, made quiet, else the one that x86 makes of
/// opposite infinities. Processors differ, and compilers swap operands as they like.
template <typename Type>
typename Type::Wide add_carefully(typename Type::Wide a, typename Type::Wide b) noexcept {
  using Wide = typename Type::Wide;
  using Bits = typename Type::Bits;
  const Wide sum = a + b;
  if (!std::isnan(sum)) return sum;
  constexpr Bits kQuiet = Bits{1} << (std::numeric_limits<Wide>::digits - 2);
  if (std::isnan(a)) return std::bit_cast<Wide>(std::bit_cast<Bits>(a) | kQuiet);
  if (std::isnan(b)) return std::bit_cast<Wide>(std::bit_cast<Bits>(b) | kQuiet);
  const Bits infinity = std::bit_cast<Bits>(std::numeric_limits<Wide>::infinity());
  return std::bit_cast<Wide>((Bits{1} << (8 * sizeof(Bits) - 1)) | infinity | kQuiet);
}

/// How one run of elements is added: arrays in the order of addition, all from the run's start.
template <typename Type>
struct Run {
  std::span<const std::uint8_t* const> values;
  bool round_each;  ///< each value and each sum, to the type
  typename Type::Wide factor;

  auto scaled(const std::uint8_t* value, std::size_t i) const {
    const auto wide = Type::load(value + i * Type::kBytes);
    return factor != 1 ? Type::round(wide * factor) : wide;
  }
  auto rounded(typename Type::Wide sum) const { return round_each ? Type::round(sum) : sum; }
};

/// The sums of n <= kBlock elements from `begin` on. True if one of them is NaN.
template <typename Type>
bool add_block(const Run<Type>& given, std::size_t begin, std::size_t n,
               typename Type::Wide* sums) {
  const Run<Type> run = given;  // not reached by what is written
  const std::uint8_t* value = run.values[0];
  for (std::size_t i = 0; i < n; ++i) sums[i] = run.scaled(value, begin + i);
  for (std::size_t k = 1; k < run.values.size(); ++k) {
    value = run.values[k];
    for (std::size_t i = 0; i < n; ++i)
      sums[i] = run.rounded(sums[i] + run.scaled(value, begin + i));
  }
  unsigned nan = 0;
  for (std::size_t i = 0; i < n; ++i) nan |= sums[i] != sums[i] ? 1u : 0u;
  return nan != 0;
}

/// The same for blocks with a NaN in them.
template <typename Type>
void add_block_carefully(const Run<Type>& run, std::size_t begin, std::size_t n,
                         typename Type::Wide* sums) {
  for (std::size_t i = 0; i < n; ++i) {
    sums[i] = run.scaled(run.values[0], begin + i);
    for (std::size_t k = 1; k < run.values.size(); ++k)
      sums[i] = run.rounded(add_carefully<Type>(sums[i], run.scaled(run.values[k], begin + i)));
  }
}

template <typename Type>
void add_run(const Run<Type>& run, std::size_t begin, std::size_t end, std::uint8_t* out) {
  typename Type::Wide sums[kBlock];
  for (; begin < end; begin += kBlock) {
    const std::size_t n = std::min(kBlock, end - begin);
    if (add_block(run, begin, n, sums)) add_block_carefully(run, begin, n, sums);
    // Only now: `out` may be one of the arrays.
    for (std::size_t i = 0; i < n; ++i) Type::store(out + (begin + i) * Type::kBytes, sums[i]);
  }
}

template <typename Type>
void add_in_ring_order(const AdditionRule& rule, std::uint64_t first,
                       std::span<const std::uint8_t* const> values, std::size_t n,
                       std::uint8_t* out) {
  const std::uint64_t chunk =
      std::max<std::uint64_t>(gloo_chunk_elements(rule.dtype, rule.bucket_elements, rule.world), 1);
  std::vector<const std::uint8_t*> ordered(rule.world);
  for (std::size_t begin = 0; begin < n;) {
    const std::uint64_t c = (first + begin) / chunk;
    const auto end = static_cast<std::size_t>(std::min<std::uint64_t>(n, (c + 1) * chunk - first));
    for (unsigned k = 0; k < rule.world; ++k)
      ordered[k] = values[(c + 2 * std::uint64_t{rule.world} - 1 - k) % rule.world];
    add_run<Type>({ordered, true, factor_of<typename Type::Wide>(rule)}, begin, end, out);
    begin = end;
  }
}

}  // namespace

std::uint64_t gloo_chunk_elements(DType dtype, std::uint64_t n, unsigned world) noexcept {
  const std::uint64_t width = element_size(dtype);
  const std::uint64_t bytes = n * width;
  const std::uint64_t cap = (std::uint64_t{1} << 20) / width * width;
  const std::uint64_t least =
      std::max<std::uint64_t>((bytes + cap - 1) / cap, 2 * std::uint64_t{world});
  const std::uint64_t segments = (least + world - 1) / world * world;
  const std::uint64_t segment = ((bytes + segments - 1) / segments + width - 1) / width;
  return segment * segments / world;
}

void add_values(const AdditionRule& rule, std::uint64_t first,
                std::span<const std::uint8_t* const> values, std::size_t n, std::uint8_t* out) {
  if (values.size() == 1) {
    std::memmove(out, values[0], n * element_size(rule.dtype));
    return;
  }
  with_type(rule.dtype, [&](auto type) {
    using Type = decltype(type);
    if (rule.order == SumOrder::gloo) return add_in_ring_order<Type>(rule, first, values, n, out);
    add_run<Type>({values, false, 1}, 0, n, out);
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
