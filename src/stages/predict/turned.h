// Elements of whole kernels turned, so that a tap of all of them lies side by side.
// In: kernels, tap after tap of each.
// Out: the same, kernel after kernel of each tap, and back.
// Assumes: nothing. Where the compiler has generic vectors, square tiles of elements are turned in
// registers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/unroll.h"

#ifdef __has_builtin
#if __has_builtin(__builtin_shufflevector) && __has_builtin(__builtin_convertvector)
#define GRADWIRE_HAS_TILES 1
#endif
#endif

namespace gradwire::predict {

/// As many rows of elements as a vector of 16 bytes has.
template <typename Word>
struct Tile {
  static constexpr std::size_t kSide = 16 / sizeof(Word);

#ifdef GRADWIRE_HAS_TILES
  static constexpr bool kIsThere = kSide == 4 || kSide == 8;
  using Row [[gnu::vector_size(16)]] = Word;

  template <typename Element>
  void load(std::size_t r, const Element* from) noexcept {
    using Elements [[gnu::vector_size(kSide * sizeof(Element))]] = Element;
    Elements row;
    std::memcpy(&row, from, sizeof(row));
    rows[r] = __builtin_convertvector(row, Row);
  }
  void store(std::size_t r, Word* to) const noexcept { std::memcpy(to, &rows[r], sizeof(Row)); }

  /// Every round interleaves each row of the upper half with one of the lower half.
  void turn() noexcept {
    GRADWIRE_UNROLL
    for (std::size_t round = 1; round < kSide; round *= 2) {
      const Tile old = *this;
      GRADWIRE_UNROLL
      for (std::size_t r = 0; r < kSide / 2; ++r)
        interleave(old.rows[r], old.rows[r + kSide / 2], rows[2 * r], rows[2 * r + 1]);
    }
  }

 private:
  static void interleave(Row a, Row b, Row& low, Row& high) noexcept {
    if constexpr (kSide == 8) {
      low = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
      high = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
    } else {
      low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
      high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    }
  }

  Row rows[kSide];  // std::array would lose the attribute
#else
  static constexpr bool kIsThere = false;
#endif
};

/// Calls on_tile(tile, kernel, tap) for the tiles of some kernels and on_element(kernel, tap) for
/// what they leave.
template <typename Word, typename OnTile, typename OnElement>
void for_each_tile(std::size_t taps, std::size_t kernels, const OnTile& on_tile,
                   const OnElement& on_element) noexcept {
  constexpr std::size_t kSide = Tile<Word>::kSide;
  std::size_t k = 0;
  if constexpr (Tile<Word>::kIsThere) {
    for (; k + kSide <= kernels; k += kSide) {
      std::size_t t = 0;
      for (; t + kSide <= taps; t += kSide) {
        Tile<Word> tile;
        on_tile(tile, k, t);
      }
      for (std::size_t i = 0; i < kSide; ++i) {
        for (std::size_t rest = t; rest < taps; ++rest) on_element(k + i, rest);
      }
    }
  }
  for (; k < kernels; ++k) {
    for (std::size_t t = 0; t < taps; ++t) on_element(k, t);
  }
}

/// to[t * stride + k] = from[k * taps + t], of words or of symbols.
template <typename Word, typename Element>
void turn_taps(const Element* from, std::size_t taps, std::size_t kernels, std::size_t stride,
               Word* to) noexcept {
  constexpr std::size_t kSide = Tile<Word>::kSide;
  for_each_tile<Word>(
      taps, kernels,
      [&](auto& tile, std::size_t k, std::size_t t) {
        for (std::size_t r = 0; r < kSide; ++r) tile.load(r, from + (k + r) * taps + t);
        tile.turn();
        for (std::size_t r = 0; r < kSide; ++r) tile.store(r, to + (t + r) * stride + k);
      },
      [&](std::size_t k, std::size_t t) { to[t * stride + k] = from[k * taps + t]; });
}

/// to[k * taps + t] = from[t * stride + k]
template <typename Word>
void turn_back(const Word* from, std::size_t taps, std::size_t kernels, std::size_t stride,
               Word* to) noexcept {
  constexpr std::size_t kSide = Tile<Word>::kSide;
  for_each_tile<Word>(
      taps, kernels,
      [&](auto& tile, std::size_t k, std::size_t t) {
        for (std::size_t r = 0; r < kSide; ++r) tile.load(r, from + (t + r) * stride + k);
        tile.turn();
        for (std::size_t r = 0; r < kSide; ++r) tile.store(r, to + (k + r) * taps + t);
      },
      [&](std::size_t k, std::size_t t) { to[k * taps + t] = from[t * stride + k]; });
}

}  // namespace gradwire::predict
