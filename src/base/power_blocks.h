// How a run of values is cut into blocks whose sizes are powers of two, with next to no padding.
// In: a number of values and the largest size of a block.
// Out: where each block begins and its size. As many of the largest size as there are; the rest in
// decreasing powers of two down to 32; what is left then, less than 32 values, in one block of the
// next power of two, which is the only one with padding: at most 15 places.
// Assumes: nothing. A block begins at a multiple of its size.
#pragma once

#include <cstddef>
#include <vector>

namespace gradwire {

class PowerBlocks {
 public:
  static constexpr std::size_t kLeast = 32;
  static constexpr std::size_t kMost = std::size_t{1} << 24;

  struct Block {
    std::size_t begin;
    std::size_t size;    ///< a power of two
    std::size_t values;  ///< of them; less than `size` in the last block only
  };

  /// Throws invalid_argument unless `largest` is a power of two of kLeast to kMost.
  PowerBlocks(std::size_t values, std::size_t largest);

  std::size_t values() const noexcept { return values_; }
  std::size_t padded() const noexcept { return padded_; }  ///< values and padding
  std::size_t count() const noexcept { return whole_ + rest_.size(); }
  /// Block k < count().
  Block operator[](std::size_t k) const noexcept {
    return k < whole_ ? Block{k * largest_, largest_, largest_} : rest_[k - whole_];
  }

 private:
  std::size_t values_;
  std::size_t largest_;
  std::size_t whole_;        ///< blocks of the largest size
  std::vector<Block> rest_;  ///< the others, at most one of each size
  std::size_t padded_;
};

}  // namespace gradwire
