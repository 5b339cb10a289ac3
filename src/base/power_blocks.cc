#include "base/power_blocks.h"

#include <bit>

#include "base/fail.h"

namespace gradwire {

PowerBlocks::PowerBlocks(std::size_t values, std::size_t largest)
    : values_(values), largest_(largest) {
  if (!std::has_single_bit(largest) || largest < kLeast || largest > kMost)
    fail(ErrorKind::invalid_argument,
         "block_values: {} given, a power of two from {} to {} is allowed", largest, kLeast, kMost);
  whole_ = values / largest;
  std::size_t begin = whole_ * largest;
  for (std::size_t size = largest / 2; size >= kLeast; size /= 2) {
    if (values - begin < size) continue;
    rest_.push_back({begin, size, size});
    begin += size;
  }
  if (begin < values) {
    rest_.push_back({begin, std::bit_ceil(values - begin), values - begin});
    begin += rest_.back().size;
  }
  padded_ = begin;
}

}  // namespace gradwire
