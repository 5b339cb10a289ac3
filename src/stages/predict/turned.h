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

/// to[c * to_stride + r] = from[r * from_stride + c] of a matrix of words, or of symbols that
/// become words.
template <typename Word, typename Element>
void transpose(const Element* from, std::size_t rows, std::size_t columns, std::size_t from_stride,
               Word* to, std::size_t to_stride) noexcept {
  constexpr std::size_t kSide = Tile<Word>::kSide;
  const auto move = [&](std::size_t r, std::size_t c) {
    to[c * to_stride + r] = from[r * from_stride + c];
  };
  std::size_t r = 0;
  if constexpr (Tile<Word>::kIsThere) {
    for (; r + kSide <= rows; r += kSide) {
      std::size_t c = 0;
      for (; c + kSide <= columns; c += kSide) {
        Tile<Word> tile;
        for (std::size_t i = 0; i < kSide; ++i) tile.load(i, from + (r + i) * from_stride + c);
        tile.turn();
        for (std::size_t i = 0; i < kSide; ++i) tile.store(i, to + (c + i) * to_stride + r);
      }
      for (std::size_t i = 0; i < kSide; ++i) {
        for (std::size_t rest = c; rest < columns; ++rest) move(r + i, rest);
      }
    }
  }
  for (; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) move(r, c);
  }
}

/// to[t * stride + k] = from[k * taps + t]: kernels, a tap of all of them side by side.
template <typename Word, typename Element>
void turn_taps(const Element* from, std::size_t taps, std::size_t kernels, std::size_t stride,
               Word* to) noexcept {
  transpose(from, kernels, taps, taps, to, stride);
}

/// And back: to[k * taps + t] = from[t * stride + k].
template <typename Word>
void turn_back(const Word* from, std::size_t taps, std::size_t kernels, std::size_t stride,
               Word* to) noexcept {
  transpose(from, taps, kernels, stride, to, taps);
}

}  // namespace gradwire::predict
