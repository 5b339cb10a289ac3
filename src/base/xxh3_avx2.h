// XXH3-64 for CPUs with AVX2, where clones.h has clones.
// In: bytes and a seed.
// Out: 64 bits, those of XXH3_64bits_withSeed.
// Assumes: the CPU has AVX2.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clones.h"

#ifdef GRADWIRE_HAS_CLONES
namespace gradwire {

std::uint64_t xxh3_by_avx2(const void* bytes, std::size_t n, std::uint64_t seed) noexcept;

}  // namespace gradwire
#endif
