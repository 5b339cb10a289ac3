#include "base/hash.h"

#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
#include <xxhash.h>

#include "base/xxh3_avx2.h"

namespace gradwire {

std::uint64_t hash64(ByteSpan bytes, std::uint64_t seed) noexcept {
#ifdef GRADWIRE_HAS_CLONES
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  constexpr std::size_t kLong = 256;  // shorter inputs are hashed without vectors
  if (has_avx2 && bytes.size() >= kLong) return xxh3_by_avx2(bytes.data(), bytes.size(), seed);
#endif
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::uint64_t hash64(ByteSpan first, ByteSpan second) noexcept {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, first.data(), first.size());
  XXH3_64bits_update(&state, second.data(), second.size());
  return XXH3_64bits_digest(&state);
}

}  // namespace gradwire
