// Random numbers that are a function of (seed, index), so that threads, CPUs and ranks agree.
// In: a seed and the index of a draw.
// Out: 32 random bits, or a float in [0, 1).
// Assumes: a use that is not cryptography. Two rounds of MurmurHash3's 32-bit finaliser, each
// behind a key of the seed: multiplications of 32 bits only, which every vector unit has.
#pragma once

#include <cstdint>

namespace gradwire {

/// Mixes 64 bits (the finaliser of splitmix64, Steele et al. 2014).
constexpr std::uint64_t mix64(std::uint64_t bits) noexcept {
  bits += 0x9e3779b97f4a7c15;
  bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
  return bits ^ bits >> 31;
}

/// What the draws of 2^32 indices with the same upper half share.
struct RandomKey {
  std::uint32_t first;
  std::uint32_t second;
  constexpr RandomKey(std::uint64_t seed, std::uint64_t index) noexcept
      : RandomKey(mix64(mix64(seed) ^ mix64(~(index >> 32)))) {}

 private:
  constexpr explicit RandomKey(std::uint64_t mixed) noexcept
      : first(static_cast<std::uint32_t>(mixed)), second(static_cast<std::uint32_t>(mixed >> 32)) {}
};

constexpr std::uint32_t mix32(std::uint32_t bits) noexcept {
  bits = (bits ^ bits >> 16) * 0x85ebca6b;
  bits = (bits ^ bits >> 13) * 0xc2b2ae35;
  return bits ^ bits >> 16;
}

/// 32 random bits for the lower half of an index.
constexpr std::uint32_t random_bits(const RandomKey& key, std::uint32_t index) noexcept {
  return mix32(mix32(index + key.first) + key.second);
}

/// A multiple of 2^-24 in [0, 1). An event with `random_unit(...) < p` has the probability p to
/// 2^-24.
constexpr float random_unit(const RandomKey& key, std::uint32_t index) noexcept {
  return static_cast<float>(static_cast<std::int32_t>(random_bits(key, index) >> 8)) * 0x1p-24F;
}

/// Where a run of draws starts: value i of the run takes draw first + i.
struct Draws {
  std::uint64_t seed = 0;
  std::uint64_t first = 0;
};

}  // namespace gradwire
