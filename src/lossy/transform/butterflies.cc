#include "lossy/transform/butterflies.h"

#include <bit>
#include <cstring>

#include "base/clones.h"
#include "base/counter_random.h"
#include "base/unroll.h"

#ifdef __has_builtin
#if __has_builtin(__builtin_shufflevector)
#define GRADWIRE_HAS_SHUFFLES 1
#endif
#endif

namespace gradwire::lossy {
namespace {

constexpr std::size_t kLanes = 8;

#ifdef GRADWIRE_HAS_SHUFFLES
using Lanes [[gnu::vector_size(kLanes * sizeof(float))]] = float;

inline void load(Lanes& lanes, const float* from) noexcept {
  std::memcpy(&lanes, from, sizeof lanes);
}
inline void store(const Lanes& lanes, float* to) noexcept { std::memcpy(to, &lanes, sizeof lanes); }

inline void butterfly(Lanes& a, Lanes& b) noexcept {
  const Lanes low = a + b;
  b = a - b;
  a = low;
}

/// Distances 1, 2, 4: the neighbour plus or minus the value; a factor of -1 is exact.
inline void near_butterflies(Lanes& a) noexcept {
  a = __builtin_shufflevector(a, a, 1, 0, 3, 2, 5, 4, 7, 6) + a * Lanes{1, -1, 1, -1, 1, -1, 1, -1};
  a = __builtin_shufflevector(a, a, 2, 3, 0, 1, 6, 7, 4, 5) + a * Lanes{1, 1, -1, -1, 1, 1, -1, -1};
  a = __builtin_shufflevector(a, a, 4, 5, 6, 7, 0, 1, 2, 3) + a * Lanes{1, 1, 1, 1, -1, -1, -1, -1};
}
#else
struct Lanes {
  float at[kLanes];
};

inline void load(Lanes& lanes, const float* from) noexcept {
  std::memcpy(lanes.at, from, sizeof lanes.at);
}
inline void store(const Lanes& lanes, float* to) noexcept {
  std::memcpy(to, lanes.at, sizeof lanes.at);
}

inline void butterfly(Lanes& a, Lanes& b) noexcept {
  for (std::size_t i = 0; i < kLanes; ++i) {
    const float low = a.at[i] + b.at[i];
    b.at[i] = a.at[i] - b.at[i];
    a.at[i] = low;
  }
}

inline void near_butterflies(Lanes& a) noexcept {
  for (std::size_t h = 1; h < kLanes; h *= 2) {
    const Lanes old = a;
    for (std::size_t i = 0; i < kLanes; ++i)
      a.at[i] = (i & h) == 0 ? old.at[i] + old.at[i ^ h] : old.at[i ^ h] - old.at[i];
  }
}
#endif

/// Lanes of kRows rows that are `stride` apart: distances stride, 2 stride, ... in registers.
template <std::size_t kRows>
inline void rows_of_lanes(float* at, std::size_t stride) noexcept {
  Lanes rows[kRows];
  GRADWIRE_UNROLL
  for (std::size_t r = 0; r < kRows; ++r) load(rows[r], at + r * stride);
  GRADWIRE_UNROLL
  for (std::size_t h = 1; h < kRows; h *= 2) {
    GRADWIRE_UNROLL
    for (std::size_t r = 0; r < kRows; ++r)
      if ((r & h) == 0) butterfly(rows[r], rows[r + h]);
  }
  GRADWIRE_UNROLL
  for (std::size_t r = 0; r < kRows; ++r) store(rows[r], at + r * stride);
}

template <std::size_t kRows>
inline void pass(float* values, std::size_t n, std::size_t stride) noexcept {
  for (std::size_t begin = 0; begin < n; begin += kRows * stride)
    for (std::size_t i = 0; i < stride; i += kLanes)
      rows_of_lanes<kRows>(values + begin + i, stride);
}

inline void passes(float* values, std::size_t n, std::size_t first) noexcept {
  for (; n / first >= 8; first *= 8) pass<8>(values, n, first);
  if (n / first == 4) pass<4>(values, n, first);
  if (n / first == 2) pass<2>(values, n, first);
}

GRADWIRE_CLONES void far(float* values, std::size_t n, std::size_t first) noexcept {
  passes(values, n, first);
}

GRADWIRE_CLONES void near_and_far(float* values, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; i += kLanes) {
    Lanes lanes;
    load(lanes, values + i);
    near_butterflies(lanes);
    store(lanes, values + i);
  }
  passes(values, n, kLanes);
}

void few(float* values, std::size_t n) noexcept {
  for (std::size_t h = 1; h < n; h *= 2) {
    for (std::size_t i = 0; i < n; ++i) {
      if ((i & h) != 0) continue;
      const float low = values[i] + values[i + h];
      values[i + h] = values[i] - values[i + h];
      values[i] = low;
    }
  }
}

constexpr std::size_t kWordBits = 32;

inline float signed_product(float value, float scale, std::uint32_t bits,
                            std::size_t bit) noexcept {
  const std::uint32_t sign = bits << (kWordBits - 1 - bit) & 0x80000000u;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value * scale) ^ sign);
}

GRADWIRE_CLONES void signs(float* values, std::size_t n, float scale, std::uint64_t seed,
                           std::uint64_t first) noexcept {
  constexpr std::uint64_t kPurpose = 0x7369676e73;  // draws for rounding may have the same seed
  const std::uint64_t draw = first / kWordBits;
  const RandomKey key(seed ^ kPurpose, draw);
  std::uint32_t words[kTile / kWordBits];
  const std::size_t count = (n + kWordBits - 1) / kWordBits;
  for (std::size_t w = 0; w < count; ++w)
    words[w] = element_bits(key, static_cast<std::uint32_t>(draw + w));
  for (std::size_t w = 0; w < n / kWordBits; ++w) {
    float* const at = values + w * kWordBits;
    for (std::size_t bit = 0; bit < kWordBits; ++bit)
      at[bit] = signed_product(at[bit], scale, words[w], bit);
  }
  for (std::size_t i = n - n % kWordBits; i < n; ++i)
    values[i] = signed_product(values[i], scale, words[i / kWordBits], i % kWordBits);
}

}  // namespace

void far_butterflies(float* values, std::size_t n, std::size_t first) noexcept {
  far(values, n, first);
}

void tile_butterflies(float* values, std::size_t n) noexcept {
  n < kLanes ? few(values, n) : near_and_far(values, n);
}

void apply_signs(float* values, std::size_t n, float scale, std::uint64_t seed,
                 std::uint64_t first) noexcept {
  signs(values, n, scale, seed, first);
}

}  // namespace gradwire::lossy
