// Sparse integers of many ranks summed by a sketch, exactly ("lossless homomorphic compression").
// In: i32 values of which few are not 0 (grid.h makes them of floats), options that ranks share.
// Out: an index (bits, to be combined by OR), then a payload (i32, to be summed), then the sums.
// Assumes: ranks give equal options and n. The index and the payload may be what a network made of
// them; a payload that is no sum of sketches is refused.
//
// A step of a rank: mark_index -> OR over ranks -> plan_sketch -> fill_payload -> SUM over ranks ->
// restore_sums. A *block* is `block_values` consecutive values, which share a bit of the index and
// a row of lanes; the last block may be shorter. The *union* is the blocks whose bit is set after
// the OR. A *cell* is a row of lanes, `block_values` integers: a block is added to one cell of each
// of three equal parts of the cells, chosen by hashes of the seed and the block's number. A cell to
// which a single block is left gives that block's sum, which is subtracted from its other two
// cells, and so on (peeling).
//
// Whether peeling ends well depends on the union and the seed alone, so that every rank knows it
// before anything is sent. Where it would get stuck, a block is taken out of the sketch and sent
// *directly*: behind the cells in the same payload. So the sums are exact in any case, and there is
// no second exchange. With `cells` = 0 all blocks are sent directly, which takes fewer bytes than
// any sketch and less time: docs/methods.md says why the sketch is here all the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gradwire::lossy {

struct SketchOptions {
  std::size_t block_values = 1;  ///< 1 to 1024
  double cells = 1.35;           ///< a block of the union; 0 (no sketch) or 0.1 to 8
  std::uint64_t seed = 0;        ///< of the hashes; need not change from step to step
};

/// Blocks that share a cell, at most: what would be more is sent directly. So the largest value of
/// a payload has a bound that is known before the index is.
inline constexpr std::uint32_t kMostBlocksInCell = 16;

/// Throws invalid_argument and names the option.
void check_options(const SketchOptions& options);

// --- the index ---------------------------------------------------------------------------

/// One bit a block of n values, the lowest bit of a byte first.
std::size_t index_bytes(std::size_t n, std::size_t block_values) noexcept;

/// Sets the bits of the blocks that have a value other than 0, and clears all others. Throws
/// invalid_argument unless `index` has index_bytes.
void mark_index(std::span<const std::int32_t> values, std::size_t block_values,
                std::span<std::uint8_t> index);

// --- the plan ----------------------------------------------------------------------------

/// A block that peeling finds, and the cell that has nothing else by then.
struct PeeledBlock {
  std::uint32_t block;
  std::uint32_t cell;
};

/// What follows from the union, the same on all ranks. Made by plan_sketch; keeps its memory.
struct SketchPlan {
  SketchOptions options;
  std::size_t values = 0;             ///< n
  std::vector<std::uint64_t> index;   ///< the union
  std::size_t union_blocks = 0;       ///< blocks of the union: order.size() + direct.size()
  std::uint32_t cells = 0;            ///< a multiple of 3
  std::uint32_t most_in_cell = 0;     ///< blocks in the fullest cell; 0 if there is no block in one
  std::vector<PeeledBlock> order;     ///< as they are peeled
  std::vector<std::uint32_t> direct;  ///< blocks that are not in the sketch, ascending

  /// Integers of a payload: cells, then direct blocks, each of block_values.
  std::size_t payload_values() const noexcept {
    return (cells + direct.size()) * options.block_values;
  }
};

/// Memory of one thread for any number of plans: 8 bytes a cell and the index once more.
struct SketchScratch {
  struct Cell {
    std::uint32_t blocks;  ///< exclusive or of their numbers
    std::uint32_t count;
  };
  std::vector<Cell> cells;
  std::vector<std::uint32_t> single;
  std::vector<std::uint64_t> left;
};

/// Plans the exchange of n values whose index, combined over all ranks, is `index`. Throws
/// invalid_argument for options out of range or an index of another size, corrupt if a bit behind
/// the last block is set, limit for 2^32 blocks or cells and more.
void plan_sketch(std::span<const std::uint8_t> index, std::size_t n, const SketchOptions& options,
                 SketchScratch& scratch, SketchPlan& plan);

// --- the payload -------------------------------------------------------------------------

/// The largest magnitude that values may have so that no sum over `world` ranks can overflow,
/// whatever the union will be: (2^31 - 1) / world, divided by kMostBlocksInCell too if there are
/// cells. Throws limit if that is 0.
std::uint32_t value_limit(const SketchOptions& options, std::uint32_t world);

/// The largest magnitude that an integer of any rank's payload can have when no rank has a value
/// larger than `most`, on which they have agreed: `most` for the exchange. Throws limit if it is
/// over 2^31 - 1.
std::uint32_t payload_bound(const SketchPlan& plan, std::uint32_t most);

/// Puts this rank's share into `payload`. `index` is what mark_index made of these values, before
/// the OR. Throws invalid_argument if a size is not the plan's, a block is not in the union, or a
/// magnitude is over `most`, and limit as payload_bound does; then `payload` is of no use.
void fill_payload(const SketchPlan& plan, std::span<const std::int32_t> values,
                  std::span<const std::uint8_t> index, std::uint32_t most,
                  std::span<std::int32_t> payload);

/// Makes `sums` of the summed payload, of which it leaves zeros and direct blocks. Throws
/// invalid_argument if a size is not the plan's, corrupt if the cells are no sum of sketches. The
/// three parts of a sketch have equal sums, so that damage to one integer of them never passes.
void restore_sums(const SketchPlan& plan, std::span<std::int32_t> payload,
                  std::span<std::int32_t> sums);

// --- accounting --------------------------------------------------------------------------

/// Bits that a rank contributes once.
struct SketchBits {
  std::uint64_t index = 0;   ///< whole bytes
  std::uint64_t cells = 0;   ///< 32 an integer
  std::uint64_t direct = 0;  ///< 32 an integer
  std::uint64_t total() const noexcept { return index + cells + direct; }
};

SketchBits bits_of(const SketchPlan& plan) noexcept;

/// Cells and direct blocks for a block of the union; 0 without a union.
double payload_per_block(const SketchPlan& plan) noexcept;

}  // namespace gradwire::lossy
