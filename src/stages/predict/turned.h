// Elements of whole kernels turned, so that a tap of all of them lies side by side.
// In: kernels, tap after tap of each.
// Out: the same, kernel after kernel of each tap, and back.
// Assumes: at most kRowBlock elements. Where the compiler has generic vectors, square tiles of
// elements are turned in registers.
#pragma once

#include <array>
#include <cstring>

#include "base/unroll.h"
#include "stages/predict/scaled_rows.h"

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
  static constexpr bool kIsThere = kSide >= 4;
  using Row [[gnu::vector_size(16)]] = Word;
  using Bytes [[gnu::vector_size(kSide)]] = std::uint8_t;

  void load(std::size_t r, const Word* from) noexcept { std::memcpy(&rows[r], from, sizeof(Row)); }
  void load(std::size_t r, const std::uint8_t* from) noexcept {
    Bytes bytes;
    std::memcpy(&bytes, from, sizeof(Bytes));
    rows[r] = __builtin_convertvector(bytes, Row);
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

template <typename Word>
class Turned {
 public:
  Turned(std::size_t taps, std::size_t kernels) noexcept : taps_(taps), kernels_(kernels) {}

  Word* tap(std::size_t t) noexcept { return elements_.data() + t * kernels_; }

  /// From kernels of words or of symbols.
  template <typename Element>
  void load(const Element* from) noexcept {
    walk(
        [&](auto& tile, std::size_t turned, std::size_t at) {
          for (std::size_t r = 0; r < kSide; ++r) tile.load(r, from + at + r * taps_);
          tile.turn();
          for (std::size_t r = 0; r < kSide; ++r) tile.store(r, &elements_[turned + r * kernels_]);
        },
        [&](std::size_t turned, std::size_t at) { elements_[turned] = from[at]; });
  }
  void store(Word* to) const noexcept {
    walk(
        [&](auto& tile, std::size_t turned, std::size_t at) {
          for (std::size_t r = 0; r < kSide; ++r) tile.load(r, &elements_[turned + r * kernels_]);
          tile.turn();
          for (std::size_t r = 0; r < kSide; ++r) tile.store(r, to + at + r * taps_);
        },
        [&](std::size_t turned, std::size_t at) { to[at] = elements_[turned]; });
  }

 private:
  static constexpr std::size_t kSide = Tile<Word>::kSide;

  /// Calls on_tile(tile, place turned, place) for tiles and on_element(place turned, place) for
  /// what they leave.
  template <typename OnTile, typename OnElement>
  void walk(const OnTile& on_tile, const OnElement& on_element) const noexcept {
    const auto on_taps = [&](std::size_t k, std::size_t t) {
      for (; t < taps_; ++t) on_element(t * kernels_ + k, k * taps_ + t);
    };
    std::size_t k = 0;
    if constexpr (Tile<Word>::kIsThere) {
      for (; k + kSide <= kernels_; k += kSide) {
        std::size_t t = 0;
        for (; t + kSide <= taps_; t += kSide) {
          Tile<Word> tile;
          on_tile(tile, t * kernels_ + k, k * taps_ + t);
        }
        for (std::size_t i = 0; i < kSide; ++i) on_taps(k + i, t);
      }
    }
    for (; k < kernels_; ++k) on_taps(k, 0);
  }

  std::size_t taps_;
  std::size_t kernels_;
  std::array<Word, kRowBlock> elements_;
};

}  // namespace gradwire::predict
