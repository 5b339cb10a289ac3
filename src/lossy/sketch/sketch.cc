// A rank's share of the payload, and sums from the payload of all.

#include "lossy/sketch/sketch.h"

#include <algorithm>

#include "base/fail.h"
#include "lossy/sketch/cells.h"

namespace gradwire::lossy {
namespace {

constexpr std::uint32_t kLargest = 0x7fffffff;

// Values that lie anywhere in memory are asked for so far ahead; measured, that takes filling to a
// half of its time and restoring to a third.
constexpr std::size_t kWordsAhead = 8;
constexpr std::size_t kBlocksAhead = 16;

void check_size(const char* what, std::size_t given, std::size_t expected) {
  if (given != expected)
    fail(ErrorKind::invalid_argument, "{}: size {} given, the plan's is {}", what, given, expected);
}

// Sums are taken modulo 2^32: what is added up on the way to a sum need not fit.

void add(const std::int32_t* values, std::size_t n, std::int32_t* sums) noexcept {
  for (std::size_t i = 0; i < n; ++i)
    sums[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(sums[i]) +
                                        static_cast<std::uint32_t>(values[i]));
}

void subtract(const std::int32_t* values, std::size_t n, std::int32_t* sums) noexcept {
  for (std::size_t i = 0; i < n; ++i)
    sums[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(sums[i]) -
                                        static_cast<std::uint32_t>(values[i]));
}

void check_magnitudes(const std::int32_t* values, std::size_t n, std::size_t first,
                      std::uint32_t most) {
  for (std::size_t i = 0; i < n; ++i) {
    const auto bits = static_cast<std::uint32_t>(values[i]);
    if ((values[i] < 0 ? 0 - bits : bits) > most) {
      fail(ErrorKind::invalid_argument,
           "values: element {} is {}, magnitudes of at most {} are allowed", first + i, values[i],
           most);
    }
  }
}

/// Values of a block: fewer than all in the last one.
std::size_t lanes_of(const SketchPlan& plan, std::uint32_t block) noexcept {
  const std::size_t lanes = plan.options.block_values;
  return std::min(lanes, plan.values - block * lanes);
}

}  // namespace

std::uint32_t value_limit(const SketchOptions& options, std::uint32_t world) {
  check_options(options);
  if (world == 0) fail(ErrorKind::invalid_argument, "world: 0 given, 1 or more are allowed");
  const std::uint32_t shared = options.cells == 0 ? 1 : kMostBlocksInCell;
  const std::uint32_t limit = kLargest / world / shared;
  if (limit == 0) fail(ErrorKind::limit, "sketch: sums over {} ranks do not fit 32 bits", world);
  return limit;
}

std::uint32_t payload_bound(const SketchPlan& plan, std::uint32_t most) {
  const std::uint64_t bound = std::uint64_t{most} * std::max(plan.most_in_cell, 1u);
  if (bound > kLargest) {
    fail(ErrorKind::limit,
         "sketch: {} values of magnitude {} share a cell, 32 bits do not hold their sum",
         plan.most_in_cell, most);
  }
  return static_cast<std::uint32_t>(bound);
}

void fill_payload(const SketchPlan& plan, std::span<const std::int32_t> values,
                  std::span<const std::uint8_t> index, std::uint32_t most,
                  std::span<std::int32_t> payload) {
  const std::size_t lanes = plan.options.block_values;
  check_size("values", values.size(), plan.values);
  check_size("index", index.size(), index_bytes(plan.values, lanes));
  check_size("payload", payload.size(), plan.payload_values());
  payload_bound(plan, most);
  std::ranges::fill(payload, 0);
  const CellChoice choose(plan.options.seed, plan.cells);
  const std::int32_t* from = values.data();
  std::int32_t* to = payload.data();
  std::size_t next = 0;  // of the direct blocks
  for (std::size_t w = 0; w < plan.index.size(); ++w) {
    if (w + kWordsAhead < plan.index.size()) {
      for_bits(index_word(index, w + kWordsAhead), w + kWordsAhead,
               [&](std::uint32_t block) { prefetch(from + block * lanes); });
    }
    const std::uint64_t own = index_word(index, w);
    if ((own & ~plan.index[w]) != 0) {
      fail(ErrorKind::invalid_argument, "values: block {} is not in the agreed index",
           w * 64 + static_cast<unsigned>(std::countr_zero(own & ~plan.index[w])));
    }
    for_bits(own, w, [&](std::uint32_t block) {
      const std::size_t first = block * lanes;
      const std::size_t n = lanes_of(plan, block);
      check_magnitudes(from + first, n, first, most);
      while (next < plan.direct.size() && plan.direct[next] < block) ++next;
      if (next < plan.direct.size() && plan.direct[next] == block) {
        std::copy_n(from + first, n, to + (plan.cells + next) * lanes);
        return;
      }
      for (const std::uint32_t cell : choose(block)) add(from + first, n, to + cell * lanes);
    });
  }
}

void restore_sums(const SketchPlan& plan, std::span<std::int32_t> payload,
                  std::span<std::int32_t> sums) {
  const std::size_t lanes = plan.options.block_values;
  check_size("payload", payload.size(), plan.payload_values());
  check_size("sums", sums.size(), plan.values);
  std::ranges::fill(sums, 0);
  const CellChoice choose(plan.options.seed, plan.cells);
  std::int32_t* cells = payload.data();
  for (std::size_t k = 0; k < plan.order.size(); ++k) {
    if (k + kBlocksAhead < plan.order.size())
      prefetch(sums.data() + plan.order[k + kBlocksAhead].block * lanes);
    const PeeledBlock peeled = plan.order[k];
    const std::size_t n = lanes_of(plan, peeled.block);
    std::int32_t* sum = sums.data() + peeled.block * lanes;
    std::copy_n(cells + peeled.cell * lanes, n, sum);
    for (const std::uint32_t cell : choose(peeled.block)) subtract(sum, n, cells + cell * lanes);
  }
  for (std::size_t i = 0; i < plan.cells * lanes; ++i) {
    if (cells[i] != 0) {
      fail(ErrorKind::corrupt, "payload: cell {} has {} left when all blocks are found, lane {}",
           i / lanes, cells[i], i % lanes);
    }
  }
  for (std::size_t k = 0; k < plan.direct.size(); ++k) {
    const std::uint32_t block = plan.direct[k];
    std::copy_n(cells + (plan.cells + k) * lanes, lanes_of(plan, block),
                sums.data() + block * lanes);
  }
}

SketchBits bits_of(const SketchPlan& plan) noexcept {
  const std::size_t lanes = plan.options.block_values;
  return {8 * std::uint64_t{index_bytes(plan.values, lanes)},
          32 * std::uint64_t{plan.cells} * lanes, 32 * std::uint64_t{plan.direct.size()} * lanes};
}

double payload_per_block(const SketchPlan& plan) noexcept {
  if (plan.union_blocks == 0) return 0;
  return static_cast<double>(plan.cells + plan.direct.size()) /
         static_cast<double>(plan.union_blocks);
}

}  // namespace gradwire::lossy
