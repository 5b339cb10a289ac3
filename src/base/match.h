// Which of 64 bytes have a value.
// In: bytes.
// Out: a bit each.
// Assumes: nothing. SSE2, which every x86-64 has, and plain words give the same bits.
#pragma once

#include "base/bytes.h"

#if defined(__SSE2__) && !defined(GRADWIRE_SCALAR)
#include <emmintrin.h>
#endif

namespace gradwire {

inline constexpr std::size_t kMatchBytes = 64;

#if defined(__SSE2__) && !defined(GRADWIRE_SCALAR)

inline std::uint64_t match_mask(const std::uint8_t* bytes, std::uint8_t value) noexcept {
  constexpr unsigned kLanes = sizeof(__m128i);
  const __m128i wanted = _mm_set1_epi8(static_cast<char>(value));
  std::uint64_t mask = 0;
  for (unsigned at = 0; at < kMatchBytes; at += kLanes) {
    const auto part = load<__m128i>(bytes + at);
    const int bits = _mm_movemask_epi8(_mm_cmpeq_epi8(part, wanted));
    mask |= std::uint64_t{static_cast<std::uint32_t>(bits)} << at;
  }
  return mask;
}

#else

inline std::uint64_t match_mask(const std::uint8_t* bytes, std::uint8_t value) noexcept {
  constexpr std::uint64_t kOnes = 0x0101010101010101, kLows = 0x7f7f7f7f7f7f7f7f;
  std::uint64_t mask = 0;
  for (unsigned at = 0; at < kMatchBytes; at += 8) {
    const std::uint64_t differs = load<std::uint64_t>(bytes + at) ^ (kOnes * value);
    const std::uint64_t high = ((differs & kLows) + kLows) | differs;  // bit 7: the byte is not 0
    const std::uint64_t equal = ~high >> 7 & kOnes;
    mask |= (equal * 0x0102040810204080 >> 56) << at;
  }
  return mask;
}

#endif

}  // namespace gradwire
