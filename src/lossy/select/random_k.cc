#include <algorithm>
#include <bit>

#include "base/counter_random.h"
#include "lossy/select/parts.h"

namespace gradwire::lossy {
namespace {

/// Marks `count` of the bits 0 to n - 1.
void mark(std::size_t n, std::size_t count, std::uint64_t seed, std::vector<std::uint64_t>& marks) {
  marks.assign((n + 63) / 64, 0);
  for (std::size_t j = n - count; j < n; ++j) {
    std::size_t bit = random_below(seed, j, static_cast<std::uint32_t>(j + 1));
    if ((marks[bit / 64] >> (bit % 64) & 1) != 0) bit = j;
    marks[bit / 64] |= std::uint64_t{1} << (bit % 64);
  }
}

}  // namespace

void select_random_k(std::size_t n, const SelectOptions& options, SelectScratch& scratch,
                     Indices& indices) {
  const bool others = options.count > n / 2;  // mark those that are not selected
  mark(n, others ? n - options.count : options.count, options.seed, scratch.marks);
  indices.resize(options.count);
  std::size_t size = 0;
  for (std::size_t w = 0; w < scratch.marks.size(); ++w) {
    std::uint64_t word = others ? ~scratch.marks[w] : scratch.marks[w];
    if (others && w * 64 + 64 > n) word &= (std::uint64_t{1} << (n % 64)) - 1;
    for (; word != 0; word &= word - 1) {
      indices[size++] =
          static_cast<std::uint32_t>(w * 64 + static_cast<unsigned>(std::countr_zero(word)));
    }
  }
}

}  // namespace gradwire::lossy
