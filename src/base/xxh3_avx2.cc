// XXH3 once more, in the wider instructions of AVX2. Nothing here but what xxhash.h keeps to this
// file: an inline function that others share would run on CPUs without them too.
#include "base/xxh3_avx2.h"

#ifdef GRADWIRE_HAS_CLONES
#pragma GCC target("avx2")

#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
#include <xxhash.h>

namespace gradwire {

std::uint64_t xxh3_by_avx2(const void* bytes, std::size_t n, std::uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(bytes, n, seed);
}

}  // namespace gradwire
#endif
