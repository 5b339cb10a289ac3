#include "stages/entropy/fixed_log2.h"

#include <array>
#include <bit>

namespace gradwire::entropy {
namespace {

constexpr unsigned kIndexBits = 12;
constexpr std::uint32_t kFirst = 1u << (kIndexBits - 1);

/// log2 of a number of 12 bits by squaring: each doubling of the logarithm gives its next bit.
std::uint32_t log2_by_squaring(std::uint32_t value) {
  std::uint64_t mantissa = std::uint64_t{value} << (32 - kIndexBits);
  std::uint32_t log2 = kIndexBits - 1;
  for (unsigned bit = 0; bit < kLog2Bits; ++bit) {
    mantissa = mantissa * mantissa >> 31;
    const auto carry = static_cast<std::uint32_t>(mantissa >> 32);
    mantissa >>= carry;
    log2 = log2 << 1 | carry;
  }
  return log2;
}

/// For the numbers whose highest bit is bit 11.
std::array<std::uint32_t, kFirst> make_table() {
  std::array<std::uint32_t, kFirst> table;
  for (std::uint32_t i = 0; i < kFirst; ++i) table[i] = log2_by_squaring(kFirst + i);
  return table;
}

}  // namespace

std::uint32_t fixed_log2(std::uint64_t value) {
  static const auto table = make_table();
  const auto width = static_cast<unsigned>(std::bit_width(value));
  const std::uint64_t top =
      width > kIndexBits ? value >> (width - kIndexBits) : value << (kIndexBits - width);
  return table[top - kFirst] + (width << kLog2Bits) - (kIndexBits << kLog2Bits);
}

}  // namespace gradwire::entropy
