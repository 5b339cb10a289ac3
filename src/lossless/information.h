// Information content in integers, so that choices do not depend on a CPU's or a library's
// logarithm.
// In: counts.
// Out: bits in units of 1/65536.
// Assumes: totals below 2^32.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/unroll.h"

namespace gradwire::lossless {

/// log2(x) x 65536 of numbers from 1 on, exact to one unit. Each squaring gives a bit; numbers go
/// through them together, so that none waits for its own.
template <std::size_t kNumbers>
constexpr std::array<std::uint64_t, kNumbers> log2_fixed(
    const std::array<std::uint64_t, kNumbers>& x) noexcept {
  std::array<std::uint64_t, kNumbers> mantissa{};  // in [2^31, 2^32)
  std::array<std::uint64_t, kNumbers> result{};
  for (std::size_t k = 0; k < kNumbers; ++k) {
    const int whole = static_cast<int>(std::bit_width(x[k])) - 1;
    mantissa[k] = whole <= 31 ? x[k] << (31 - whole) : x[k] >> (whole - 31);
    result[k] = static_cast<std::uint64_t>(whole);
  }
  for (int i = 0; i < 16; ++i) {
    GRADWIRE_UNROLL
    for (std::size_t k = 0; k < kNumbers; ++k) {
      mantissa[k] = mantissa[k] * mantissa[k] >> 31;
      const std::uint64_t carry = mantissa[k] >> 32;
      mantissa[k] >>= carry;
      result[k] = result[k] << 1 | carry;
    }
  }
  return result;
}

/// Order-0 information of all counted symbols, in bits.
template <typename Count>
std::uint64_t information_bits(std::span<const Count> counts) noexcept {
  constexpr std::size_t kTogether = 8;
  std::array<std::uint64_t, kTogether> some;
  std::size_t waiting = 0;
  std::uint64_t total = 0;
  std::uint64_t weighted = 0;
  const auto weigh = [&] {
    const auto logs = log2_fixed(some);
    for (std::size_t k = 0; k < kTogether; ++k) weighted += some[k] * logs[k];
    waiting = 0;
  };
  for (const Count count : counts) {
    some[waiting] = count;
    waiting += count != 0;
    total += count;
    if (waiting == kTogether) weigh();
  }
  if (total == 0) return 0;
  std::fill(some.begin() + static_cast<std::ptrdiff_t>(waiting), some.end(), 1);  // log2 = 0
  weigh();
  return (total * log2_fixed(std::array{total})[0] - weighted) >> 16;
}

}  // namespace gradwire::lossless
