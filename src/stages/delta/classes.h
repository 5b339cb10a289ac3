// Elements by class, and the places of a class's elements (docs/format.md 12.2).
// In: the reference's elements of a chunk.
// Out: how many elements each class has; the place of the r-th of a class, in any order of r that
// ascends.
// Assumes: a chunk of at most kMaxChunk elements.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/match.h"
#include "gradwire/dtype.h"

namespace gradwire::delta {

inline constexpr std::uint32_t kMaxChunk = 1u << 16;
inline constexpr std::size_t kBlock = kMatchBytes;  ///< elements that are looked at together
inline constexpr unsigned kMaxClasses = 16;

/// Which elements make a class: those whose key, the exponent field of a float and 0 of all else,
/// is one of the 2^step from `low` + class * 2^step on; below and above them the first and the last
/// class go on.
struct ClassRule {
  unsigned shift = 0;  ///< of the key in an element
  unsigned mask = 0;   ///< of the key, once shifted
  unsigned low = 0;
  unsigned step = 0;
  unsigned classes = 1;
};

/// One class for all keys of the dtype.
ClassRule class_rule(DType dtype) noexcept;
/// A class for each key, up to the largest in use.
ClassRule finest_classes(ClassRule rule, unsigned least_key, unsigned most_key) noexcept;

/// The classes of a chunk.
template <typename Word>
class ClassMap {
 public:
  void build(std::span<const Word> reference, const ClassRule& rule);

  std::uint8_t class_of(std::size_t i) const noexcept { return classes_[i]; }
  /// Elements of a class.
  std::uint32_t total(unsigned c) const noexcept { return totals_[c]; }
  /// Elements of each class in a block.
  const std::array<std::uint8_t, kMaxClasses>& counts(std::size_t block) const noexcept {
    return counts_[block];
  }
  /// Which elements of a block are of a class, a bit each; what stands behind the chunk's last
  /// element may count for one of class 0.
  std::uint64_t mask(std::size_t block, unsigned c) const noexcept;
  std::size_t blocks() const noexcept { return counts_.size(); }

 private:
  std::vector<std::uint8_t> classes_;  ///< whole blocks
  std::vector<std::array<std::uint8_t, kMaxClasses>> counts_;
  std::array<std::uint32_t, kMaxClasses> totals_{};
};

}  // namespace gradwire::delta
