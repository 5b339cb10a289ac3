// Random numbers that are a function of a seed and the number of the draw, so that threads, CPUs
// and ranks agree.
// In: a seed, which ranks may share, and a number.
// Out: random bits, an integer below a bound, or a float in [0, 1).
// Assumes: a use that is not cryptography. Two generators: splitmix64 (Steele, Lea, Flood 2014,
// Fast splittable pseudorandom number generators) for single draws, and two rounds of
// MurmurHash3's 32-bit finaliser, each behind a key of the seed, for loops over elements:
// multiplications of 32 bits only, which every vector unit has.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace gradwire {

inline constexpr std::uint64_t kGoldenGamma = 0x9e3779b97f4a7c15;

/// A step of splitmix64 from a state, a bijection of 64 bits.
constexpr std::uint64_t splitmix(std::uint64_t state) noexcept {
  std::uint64_t x = state + kGoldenGamma;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

// --- single draws ----------------------------------------------------------------------

/// Draw number `counter` of `seed`. The seed is mixed first: neighbouring seeds, such as the
/// numbers of steps, give streams that are not shifts of one another.
constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t counter) noexcept {
  return splitmix(splitmix(seed) + counter * kGoldenGamma);
}

/// An integer below `bound` (1 to 2^32 - 1), each as likely as any other to within 2^-32.
constexpr std::uint32_t random_below(std::uint64_t seed, std::uint64_t counter,
                                     std::uint32_t bound) noexcept {
  const std::uint64_t bits = random_bits(seed, counter);
  const std::uint64_t carry = (bits & 0xffffffffu) * bound >> 32;
  return static_cast<std::uint32_t>(((bits >> 32) * bound + carry) >> 32);
}

// --- a draw an element -----------------------------------------------------------------

/// What the draws of 2^32 indices with the same upper half share.
struct RandomKey {
  std::uint32_t first;
  std::uint32_t second;
  constexpr RandomKey(std::uint64_t seed, std::uint64_t index) noexcept
      : RandomKey(splitmix(splitmix(seed) ^ splitmix(~(index >> 32)))) {}

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
constexpr std::uint32_t element_bits(const RandomKey& key, std::uint32_t index) noexcept {
  return mix32(mix32(index + key.first) + key.second);
}

/// A multiple of 2^-24 in [0, 1). An event with `random_unit(...) < p` has the probability p to
/// 2^-24.
constexpr float random_unit(const RandomKey& key, std::uint32_t index) noexcept {
  return static_cast<float>(static_cast<std::int32_t>(element_bits(key, index) >> 8)) * 0x1p-24F;
}

/// Where a run of draws starts: value i of the run takes draw first + i.
struct Draws {
  std::uint64_t seed = 0;
  std::uint64_t first = 0;
};

/// Calls `use(begin, n, key, first)` for parts of the values `begin` to `begin + n - 1` of a run
/// whose draws have one key; `first` is the lower half of the part's first draw.
template <typename Use>
void for_each_key(const Draws& draws, std::size_t begin, std::size_t n, const Use& use) {
  constexpr std::uint64_t kKeyDraws = std::uint64_t{1} << 32;
  for (std::size_t done = 0; done < n;) {
    const std::uint64_t draw = draws.first + begin + done;
    const auto left =
        static_cast<std::size_t>(std::min<std::uint64_t>(n - done, kKeyDraws - draw % kKeyDraws));
    use(begin + done, left, RandomKey(draws.seed, draw), static_cast<std::uint32_t>(draw));
    done += left;
  }
}

}  // namespace gradwire
