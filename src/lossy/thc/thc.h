// Rotated values to integers that ranks can sum, and the sum back to their mean: THC.
// In: values and how they are cut into blocks; norms of the blocks that ranks agreed on; a seed.
// Out: indices of table entries, table entries, their sums; values.
// Assumes: values were rotated block by block (lossy/transform), so that those of a block with the
// norm N are about N(0, N^2 / size). Options have passed optimal_table.
// Source: Li et al. 2024, Tensor homomorphic compression. A step of all ranks:
//   measure_norms of x, before it is rotated; the maximum of each over ranks (floats that are not
//   negative compare as their bits do);  quantise;  entries, packed (lanes.h) and summed by an
//   all-reduce, or indices, packed and sent to a server that sums their entries;  decode, and
//   rotate back. Feedback: decode of a rank's own entries.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/counter_random.h"
#include "base/power_blocks.h"
#include "lossy/thc/table.h"

namespace gradwire::lossy {

/// The largest norm that is taken; below 2^-100 the precision fades.
inline constexpr float kMostNorm = 0x1p112F;

/// The norms of x, one a block, to be agreed on. `values`: blocks.values() of them or, with
/// padding, blocks.padded(). False if a value is NaN or infinite or a norm above kMostNorm: the
/// norm of that block is infinite then, and so the maximum tells all ranks.
[[nodiscard]] bool measure_norms(std::span<const float> values, const PowerBlocks& blocks,
                                 std::vector<float>& norms);

/// Whether norms that ranks agreed on can be used: none is above kMostNorm. If not, some rank's
/// values are not finite, and no rank goes on.
bool norms_are_usable(std::span<const float> norms) noexcept;

/// One norm of a tensor dealt out to its blocks by size, as the paper has it. Only good for one
/// block, or where all blocks are alike.
void spread_norm(float norm, const PowerBlocks& blocks, std::vector<float>& norms);

/// Sizes must be blocks.padded(), the number of norms blocks.count(), norms usable: otherwise the
/// members throw invalid_argument.
class TableQuantiser {
 public:
  /// Throws invalid_argument as optimal_table does.
  explicit TableQuantiser(const TableOptions& options);
  const Table& table() const noexcept { return table_; }

  /// Index j of one of the two entries around each value, so that the mean over seeds is the
  /// value, or of the end that it is clipped to. Place i takes draw draws.first + i; ranks take
  /// different seeds, since errors that are not alike shrink in the mean.
  void quantise(std::span<const float> rotated, const PowerBlocks& blocks,
                std::span<const float> norms, const Draws& draws,
                std::span<std::uint8_t> indices) const;

  /// entries[i] = T[indices[i]]; may be the same memory. Throws corrupt for an index of no entry.
  void to_entries(std::span<const std::uint8_t> indices, std::span<std::uint8_t> entries) const;

  /// sums[i] += T[indices[i]], for a server. Throws corrupt for an index of no entry, and changes
  /// nothing then.
  void add_entries(std::span<const std::uint8_t> indices, std::span<std::uint32_t> sums) const;

  /// The rotated mean of `terms` ranks, 1 or more. Throws corrupt if a sum is above top * terms.
  void decode(std::span<const std::uint32_t> sums, std::uint32_t terms, const PowerBlocks& blocks,
              std::span<const float> norms, std::span<float> rotated) const;
  /// What one rank's entries stand for.
  void decode(std::span<const std::uint8_t> entries, const PowerBlocks& blocks,
              std::span<const float> norms, std::span<float> rotated) const;

 private:
  void check_indices(std::span<const std::uint8_t> indices) const;
  template <typename Sum>
  void decode_sums(std::span<const Sum> sums, std::uint32_t terms, const PowerBlocks& blocks,
                   std::span<const float> norms, std::span<float> rotated) const;

  Table table_;
  std::array<std::uint8_t, 256> entries_{};  ///< of the table, zeros behind them
  std::array<std::uint32_t, 255> cells_{};   ///< cell_word of each
};

}  // namespace gradwire::lossy
