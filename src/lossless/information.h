// Information content in integers, so that choices do not depend on a CPU's or a library's
// logarithm.
// In: counts.
// Out: bits in units of 1/65536.
// Assumes: totals below 2^32.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

namespace gradwire::lossless {

/// log2(x) x 65536 for x >= 1, exact to one unit.
constexpr std::uint64_t log2_fixed(std::uint64_t x) noexcept {
  const int whole = static_cast<int>(std::bit_width(x)) - 1;
  std::uint64_t mantissa = whole <= 31 ? x << (31 - whole) : x >> (whole - 31);  // [2^31, 2^32)
  std::uint64_t result = static_cast<std::uint64_t>(whole);
  for (int i = 0; i < 16; ++i) {
    mantissa = mantissa * mantissa >> 31;
    const std::uint64_t carry = mantissa >> 32;
    mantissa >>= carry;
    result = result << 1 | carry;
  }
  return result;
}

/// Order-0 information of all counted symbols, in bits.
template <typename Count>
std::uint64_t information_bits(std::span<const Count> counts) noexcept {
  std::uint64_t total = 0;
  std::uint64_t weighted = 0;
  for (const Count count : counts) {
    if (count == 0) continue;
    total += count;
    weighted += count * log2_fixed(count);
  }
  return total == 0 ? 0 : (total * log2_fixed(total) - weighted) >> 16;
}

}  // namespace gradwire::lossless
