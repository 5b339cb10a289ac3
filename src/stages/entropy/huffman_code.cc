#include "stages/entropy/huffman.h"

namespace gradwire::entropy {
namespace {

std::uint16_t reversed(std::uint32_t code, unsigned length) {
  static_assert(kMaxCodeLength <= 16);
  code = (code & 0x5555) << 1 | (code >> 1 & 0x5555);
  code = (code & 0x3333) << 2 | (code >> 2 & 0x3333);
  code = (code & 0x0f0f) << 4 | (code >> 4 & 0x0f0f);
  code = (code & 0x00ff) << 8 | code >> 8;
  return static_cast<std::uint16_t>(code >> (16 - length));
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
  std::size_t end = kMaxSymbols;  // most alphabets are small
  while (end > 0 && lengths[end - 1] == 0) --end;
  std::array<std::uint16_t, kMaxCodeLength + 1> used{};
  for (std::size_t s = 0; s < end; ++s) ++used[lengths[s]];
  std::array<std::uint32_t, kMaxCodeLength + 2> next{};
  for (unsigned length = 1; length <= kMaxCodeLength; ++length) {
    next[length + 1] = (next[length] + used[length]) << 1;
  }
  std::array<std::uint16_t, kMaxSymbols> codes{};
  for (std::size_t s = 0; s < end; ++s) {
    if (lengths[s] > 0) codes[s] = reversed(next[lengths[s]]++, lengths[s]);
  }
  return codes;
}

}  // namespace gradwire::entropy
