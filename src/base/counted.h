// Fractions by their count of significant bits (docs/format.md 3.5).
// In: g of `rest` bits.
// Out: a count v of 0 to 15 and the bits that it leaves open; and back.
// Assumes: rest <= 52, lo <= rest.
#pragma once

#include <bit>

#include "base/bits.h"

namespace gradwire {

inline constexpr unsigned kCountAlphabet = 16;

/// `rest` fraction bits, counts from `lo`.
struct CountShape {
  unsigned rest;
  unsigned lo;
};

inline unsigned significant_bits(std::uint64_t g, unsigned rest) noexcept {
  return g == 0 ? 0 : rest - static_cast<unsigned>(std::countr_zero(g));
}

inline unsigned count_of(std::uint64_t g, CountShape shape) noexcept {
  const unsigned u = significant_bits(g, shape.rest);
  return u <= shape.lo ? 0 : u < shape.lo + 15 ? u - shape.lo : 15;
}

/// Bits that count v leaves open.
inline unsigned open_bits(unsigned v, CountShape shape) noexcept {
  return v == 0 ? shape.lo : v == 15 ? shape.rest : shape.lo + v - 1;
}

/// Writes what v = count_of(g) leaves open; returns v.
inline unsigned put_counted(std::uint64_t g, CountShape shape, BitWriter& out) noexcept {
  const unsigned v = count_of(g, shape);
  const unsigned bits = open_bits(v, shape);
  out.put(g >> (shape.rest - bits), bits);
  return v;
}

/// False when v asks for more bits than g has.
template <typename Reader>
bool get_counted(unsigned v, CountShape shape, Reader& in, std::uint64_t& g) noexcept {
  const unsigned bits = open_bits(v, shape);
  const bool implied = v >= 1 && v <= 14;
  if (bits + implied > shape.rest) return false;
  g = in.get(bits);
  if (implied) g = g << 1 | 1;
  g <<= shape.rest - bits - implied;
  return true;
}

}  // namespace gradwire
