// Which blocks go into the sketch, and in what order they come out.

#include <algorithm>
#include <cmath>

#include "base/fail.h"
#include "lossy/sketch/cells.h"
#include "lossy/sketch/sketch.h"

namespace gradwire::lossy {
namespace {

constexpr double kFewestCells = 0.1;
constexpr double kMostCells = 8;

/// Copies the union and counts its blocks.
void take_index(std::span<const std::uint8_t> index, SketchPlan& plan) {
  const std::size_t block_values = plan.options.block_values;
  const std::size_t expected = index_bytes(plan.values, block_values);
  if (index.size() != expected) {
    fail(ErrorKind::invalid_argument, "index: {} bytes given, {} values in blocks of {} have {}",
         index.size(), plan.values, block_values, expected);
  }
  const std::size_t blocks = plan.values / block_values + (plan.values % block_values != 0);
  if (blocks > 0xffffffff) {
    fail(ErrorKind::limit, "sketch: {} blocks of {} values, at most 4294967295 are possible",
         blocks, block_values);
  }
  if (blocks % 8 != 0 && index.back() >> (blocks % 8) != 0) {
    fail(ErrorKind::corrupt, "index: bits are set behind block {}, the last one", blocks - 1);
  }
  plan.index.resize((index.size() + 7) / 8);
  plan.union_blocks = 0;
  for (std::size_t w = 0; w < plan.index.size(); ++w) {
    plan.index[w] = index_word(index, w);
    plan.union_blocks += static_cast<unsigned>(std::popcount(plan.index[w]));
  }
}

std::uint32_t count_cells(double share, std::size_t union_blocks) {
  const double part = std::ceil(share * static_cast<double>(union_blocks) / 3);
  if (part * 3 > 0xffffffff) {
    fail(ErrorKind::limit, "sketch: {} cells for {} blocks, at most 4294967295 are possible",
         part * 3, union_blocks);
  }
  return 3 * static_cast<std::uint32_t>(part);
}

/// The sketch of block numbers: what a receiver can know of cells without values.
class Peeling {
 public:
  Peeling(SketchScratch& scratch, SketchPlan& plan)
      : scratch_(scratch), plan_(plan), choose_(plan.options.seed, plan.cells) {
    scratch_.cells.assign(plan.cells, {0, 0});
    scratch_.single.clear();
    scratch_.left = plan.index;
  }

  void insert_all() {
    for (std::size_t w = 0; w < plan_.index.size(); ++w)
      for_bits(plan_.index[w], w, [this](std::uint32_t block) { insert(block); });
    for (const SketchScratch::Cell& cell : scratch_.cells)
      plan_.most_in_cell = std::max(plan_.most_in_cell, cell.count);
  }

  /// Peels to the end; wherever no cell has a single block, the first block left goes directly.
  void peel_all() {
    for (std::uint32_t at = 0; at < plan_.cells; ++at)
      if (scratch_.cells[at].count == 1) scratch_.single.push_back(at);
    peel();
    for (std::size_t w = 0; w < scratch_.left.size(); ++w) {
      while (scratch_.left[w] != 0) {
        const auto bit = static_cast<unsigned>(std::countr_zero(scratch_.left[w]));
        const auto block = static_cast<std::uint32_t>(w * 64 + bit);
        plan_.direct.push_back(block);
        remove(block);
        peel();
      }
    }
  }

 private:
  void insert(std::uint32_t block) {
    const auto at = choose_(block);
    SketchScratch::Cell* cells = scratch_.cells.data();
    for (const std::uint32_t cell : at) {
      if (cells[cell].count == kMostBlocksInCell) {
        plan_.direct.push_back(block);
        forget(block);
        return;
      }
    }
    for (const std::uint32_t cell : at) {
      cells[cell].blocks ^= block;
      ++cells[cell].count;
    }
  }

  void forget(std::uint32_t block) noexcept {
    scratch_.left[block / 64] &= ~(std::uint64_t{1} << block % 64);
  }

  void remove(std::uint32_t block) {
    forget(block);
    for (const std::uint32_t at : choose_(block)) {
      SketchScratch::Cell& cell = scratch_.cells[at];
      cell.blocks ^= block;
      if (--cell.count == 1) scratch_.single.push_back(at);
    }
  }

  /// In rounds: first come, first served. A stack would do, but what is found next would depend
  /// on the last find, and a CPU could not look ahead. The list grows on the way.
  void peel() {
    for (std::size_t next = 0; next < scratch_.single.size(); ++next) {
      const std::uint32_t at = scratch_.single[next];
      const SketchScratch::Cell cell = scratch_.cells[at];
      if (cell.count != 1) continue;  // by now its block was found in another cell
      plan_.order.push_back({cell.blocks, at});
      remove(cell.blocks);
    }
    scratch_.single.clear();
  }

  SketchScratch& scratch_;
  SketchPlan& plan_;
  CellChoice choose_;
};

}  // namespace

void check_options(const SketchOptions& options) {
  if (options.block_values < 1 || options.block_values > 1024) {
    fail(ErrorKind::invalid_argument, "block_values: {} given, 1 to 1024 are allowed",
         options.block_values);
  }
  const bool sketch = options.cells >= kFewestCells && options.cells <= kMostCells;
  if (!sketch && options.cells != 0) {
    fail(ErrorKind::invalid_argument, "cells: {} given, 0 or {} to {} are allowed", options.cells,
         kFewestCells, kMostCells);
  }
}

void plan_sketch(std::span<const std::uint8_t> index, std::size_t n, const SketchOptions& options,
                 SketchScratch& scratch, SketchPlan& plan) {
  check_options(options);
  plan.options = options;
  plan.values = n;
  take_index(index, plan);
  plan.cells = count_cells(options.cells, plan.union_blocks);
  plan.most_in_cell = 0;
  plan.order.clear();
  plan.direct.clear();
  if (plan.cells == 0) {
    for (std::size_t w = 0; w < plan.index.size(); ++w)
      for_bits(plan.index[w], w, [&plan](std::uint32_t block) { plan.direct.push_back(block); });
    return;
  }
  Peeling peeling(scratch, plan);
  peeling.insert_all();
  peeling.peel_all();
  std::ranges::sort(plan.direct);
}

}  // namespace gradwire::lossy
