// What is left of a large change, in a Golomb-Rice code with an end (docs/format.md 12.5).
// In: a number below 2^width; or bits.
// Out: bits; or the number.
// Assumes: nothing of the bits; an overrun is seen by the reader.
#pragma once

#include <bit>
#include <cstdint>

#include "base/bits.h"

namespace gradwire::delta {

inline constexpr unsigned kMostOnes = 24;  ///< so many are followed by all bits of the number

/// Bits that any rest takes at most.
constexpr unsigned rest_bound(unsigned width) noexcept { return kMostOnes + 1 + width; }

inline void put_wide(BitWriter& out, std::uint64_t value, unsigned bits) noexcept {
  constexpr unsigned kHalf = 32;
  if (bits > kHalf) {
    out.put(value & UINT32_MAX, kHalf);
    value >>= kHalf;
    bits -= kHalf;
  }
  out.put(value, bits);
}

inline std::uint64_t get_wide(BitReader& in, unsigned bits) noexcept {
  constexpr unsigned kHalf = 32;
  if (bits <= kHalf) return in.get(bits);
  const std::uint64_t low = in.get(kHalf);
  return low | in.get(bits - kHalf) << kHalf;
}

inline void write_rest(std::uint64_t rest, unsigned low_bits, unsigned width,
                       BitWriter& out) noexcept {
  const std::uint64_t ones = rest >> low_bits;
  if (ones >= kMostOnes) {
    put_ones(out, kMostOnes, false);
    return put_wide(out, rest, width);
  }
  put_ones(out, static_cast<std::uint32_t>(ones), true);
  put_wide(out, rest & ((std::uint64_t{1} << low_bits) - 1), low_bits);
}

/// A number of more than 64 bits is cut: its sender made it by another rule.
inline std::uint64_t read_rest(BitReader& in, unsigned low_bits, unsigned width) noexcept {
  const auto ones = static_cast<unsigned>(std::countr_one(in.peek(kMostOnes)));
  if (ones >= kMostOnes) {
    in.skip(kMostOnes);
    return get_wide(in, width);
  }
  in.skip(ones + 1);
  return std::uint64_t{ones} << low_bits | get_wide(in, low_bits);
}

}  // namespace gradwire::delta
