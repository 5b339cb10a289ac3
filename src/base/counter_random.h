// Random numbers without a state: a function of a seed and a counter.
// In: a seed, which ranks may share, and the number of the draw.
// Out: 64 bits, or an integer below a bound; the same on every machine.
// Assumes: nothing secret depends on them.
// Source: Steele, Lea, Flood 2014, Fast splittable pseudorandom number generators (SplitMix64).
#pragma once

#include <cstdint>

namespace gradwire {

/// The finaliser of SplitMix64, a bijection of 64 bits.
constexpr std::uint64_t mix_bits(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// Draw number `counter` of `seed`. The seed is mixed first: neighbouring seeds, such as the
/// numbers of steps, give streams that are not shifts of one another.
constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t counter) noexcept {
  return mix_bits(mix_bits(seed + 0x9e3779b97f4a7c15u) + (counter + 1) * 0x9e3779b97f4a7c15u);
}

/// An integer below `bound` (1 to 2^32 - 1), each as likely as any other to within 2^-32.
constexpr std::uint32_t random_below(std::uint64_t seed, std::uint64_t counter,
                                     std::uint32_t bound) noexcept {
  const std::uint64_t bits = random_bits(seed, counter);
  const std::uint64_t carry = (bits & 0xffffffffu) * bound >> 32;
  return static_cast<std::uint32_t>(((bits >> 32) * bound + carry) >> 32);
}

}  // namespace gradwire
