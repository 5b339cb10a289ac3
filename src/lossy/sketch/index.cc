// Which blocks have a value other than 0, one bit each.

#include <algorithm>

#include "base/bytes.h"
#include "base/clones.h"
#include "base/fail.h"
#include "lossy/sketch/sketch.h"

namespace gradwire::lossy {
namespace {

/// Eight bytes of 0 or 1 to the bits of one, the first to the lowest.
std::uint8_t pack(const std::uint8_t* flags) noexcept {
  return static_cast<std::uint8_t>(load<std::uint64_t>(flags) * 0x0102040810204080 >> 56);
}

/// Whole bytes of an index with a bit a value.
GRADWIRE_CLONES void mark_values(const std::int32_t* values, std::size_t bytes,
                                 std::uint8_t* index) noexcept {
  constexpr std::size_t kAtOnce = 32;  // bytes, of 256 flags
  std::uint8_t flags[kAtOnce * 8];
  for (std::size_t done = 0; done < bytes; done += kAtOnce) {
    const std::size_t now = std::min(kAtOnce, bytes - done);
    for (std::size_t i = 0; i < now * 8; ++i) flags[i] = values[done * 8 + i] != 0 ? 1 : 0;
    for (std::size_t b = 0; b < now; ++b) index[done + b] = pack(flags + b * 8);
  }
}

/// One block.
bool has_value(const std::int32_t* values, std::size_t n) noexcept {
  std::int32_t all = 0;
  for (std::size_t i = 0; i < n; ++i) all |= values[i];
  return all != 0;
}

GRADWIRE_CLONES void mark_blocks(const std::int32_t* values, std::size_t blocks,
                                 std::size_t block_values, std::uint8_t* index) noexcept {
  for (std::size_t b = 0; b < blocks; ++b) {
    const bool set = has_value(values + b * block_values, block_values);
    index[b / 8] = static_cast<std::uint8_t>(index[b / 8] | unsigned{set} << b % 8);
  }
}

}  // namespace

std::size_t index_bytes(std::size_t n, std::size_t block_values) noexcept {
  const std::size_t blocks = n / block_values + (n % block_values != 0);
  return blocks / 8 + (blocks % 8 != 0);
}

void mark_index(std::span<const std::int32_t> values, std::size_t block_values,
                std::span<std::uint8_t> index) {
  check_options({.block_values = block_values});
  if (index.size() != index_bytes(values.size(), block_values)) {
    fail(ErrorKind::invalid_argument, "index: {} bytes given, {} values in blocks of {} have {}",
         index.size(), values.size(), block_values, index_bytes(values.size(), block_values));
  }
  std::ranges::fill(index, std::uint8_t{0});
  const std::size_t whole = values.size() / block_values;
  std::size_t done = 0;
  if (block_values == 1) {
    done = whole / 8 * 8;
    mark_values(values.data(), whole / 8, index.data());
  } else {
    done = whole;
    mark_blocks(values.data(), whole, block_values, index.data());
  }
  for (std::size_t i = done * block_values; i < values.size(); ++i) {
    const std::size_t b = i / block_values;
    if (values[i] != 0) index[b / 8] = static_cast<std::uint8_t>(index[b / 8] | 1u << b % 8);
  }
}

}  // namespace gradwire::lossy
