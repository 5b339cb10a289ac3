// XXH3-64 over bytes.
// In: bytes and a seed.
// Out: 64 bits.
// Assumes: nothing.
#pragma once

#include "base/bytes.h"

namespace gradwire {

std::uint64_t hash64(ByteSpan bytes, std::uint64_t seed = 0) noexcept;
/// Hash of two spans as if they were one.
std::uint64_t hash64(ByteSpan first, ByteSpan second) noexcept;

}  // namespace gradwire
