#include "stages/entropy/huffman.h"

namespace gradwire::entropy {
namespace {

std::uint16_t reversed(std::uint32_t code, unsigned length) {
  std::uint32_t result = 0;
  for (unsigned i = 0; i < length; ++i) result |= (code >> i & 1) << (length - 1 - i);
  return static_cast<std::uint16_t>(result);
}

}  // namespace

std::uint32_t kraft_sum(const Values& lengths) noexcept {
  std::uint32_t sum = 0;
  for (const std::uint16_t length : lengths) {
    if (length > 0) sum += (1u << kMaxCodeLength) >> length;
  }
  return sum;
}

std::array<std::uint16_t, kMaxSymbols> canonical_codes(const Values& lengths) noexcept {
  std::array<std::uint16_t, kMaxCodeLength + 1> used{};
  for (const std::uint16_t length : lengths) ++used[length];
  std::array<std::uint32_t, kMaxCodeLength + 2> next{};
  for (unsigned length = 1; length <= kMaxCodeLength; ++length) {
    next[length + 1] = (next[length] + used[length]) << 1;
  }
  std::array<std::uint16_t, kMaxSymbols> codes{};
  for (std::size_t s = 0; s < kMaxSymbols; ++s) {
    if (lengths[s] > 0) codes[s] = reversed(next[lengths[s]]++, lengths[s]);
  }
  return codes;
}

}  // namespace gradwire::entropy
