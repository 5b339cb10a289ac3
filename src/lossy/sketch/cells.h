// Where a block lies in a sketch, and the blocks of an index.
// In: a seed, a number of cells, numbers of blocks; words of an index.
// Out: three cells, one of each part; the blocks whose bits are set.
// Assumes: cells are a multiple of 3 and not 0; there are fewer than 2^32.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/counter_random.h"

namespace gradwire::lossy {

/// Three parts instead of three cells of all: the cells of a block differ without a comparison, and
/// peeling needs the same number of them (Goodrich, Mitzenmacher 2011). Draw number `block` of the
/// seed gives all three: up to 2^21 cells a part they depend on different bits of it.
class CellChoice {
 public:
  CellChoice(std::uint64_t seed, std::uint32_t cells) noexcept
      : seed_(splitmix(seed)), part_(cells / 3) {}

  std::array<std::uint32_t, 3> operator()(std::uint32_t block) const noexcept {
    const std::uint64_t bits = splitmix(seed_ + block * kGoldenGamma);
    return {scale(bits), part_ + scale(std::rotl(bits, 21)),
            2 * part_ + scale(std::rotl(bits, 42))};
  }

 private:
  /// The low 32 bits, of which the upper ones count, to a number below part_.
  std::uint32_t scale(std::uint64_t bits) const noexcept {
    return static_cast<std::uint32_t>((bits & 0xffffffff) * part_ >> 32);
  }

  std::uint64_t seed_;
  std::uint32_t part_;
};

/// Asks for memory that will be used soon.
inline void prefetch(const void* at) noexcept {
#ifdef __GNUC__
  __builtin_prefetch(at);
#else
  static_cast<void>(at);
#endif
}

/// Word w of an index; bits behind its end are 0.
inline std::uint64_t index_word(std::span<const std::uint8_t> index, std::size_t w) noexcept {
  std::uint64_t word = 0;
  const std::size_t left = index.size() - w * 8;
  std::memcpy(&word, index.data() + w * 8, left < 8 ? left : 8);
  return word;
}

/// Calls `use(block)` for the bits of word w, the lowest first.
template <typename Use>
inline void for_bits(std::uint64_t word, std::size_t w, const Use& use) {
  for (; word != 0; word &= word - 1)
    use(static_cast<std::uint32_t>(w * 64 + static_cast<unsigned>(std::countr_zero(word))));
}

}  // namespace gradwire::lossy
