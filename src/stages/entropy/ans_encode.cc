#include <algorithm>

#include "stages/entropy/ans.h"

namespace gradwire::entropy {
namespace {

constexpr std::int64_t kWordBits = 16;
constexpr unsigned kReciprocalBits = 44;
constexpr std::size_t kStateBytes = sizeof(std::uint32_t);

}  // namespace

AnsEncoder::AnsEncoder(const Table& table)
    : pairs_(table.pairs), entries_{}, slots_(slot_order(table)) {
  unsigned begin = 0;
  for (std::size_t s = 0; s < kMaxSymbols; ++s) {
    const unsigned frequency = table.values[s];
    if (frequency == 0) continue;
    // Exact for a state x < f 2^19, what it is when divided: x (2^44 + e) / f >> 44 with e < f adds
    // less than 1 / f to x / f, and x (2^44 + f) / f stays below 2^64.
    entries_[s] = {((std::uint64_t{1} << kReciprocalBits) + frequency - 1) / frequency,
                   frequency << (31 - kProbabilityBits), static_cast<std::uint16_t>(frequency),
                   static_cast<std::uint16_t>(begin)};
    begin += frequency;
  }
}

/// Puts one symbol into a state; `words` grows downwards. Whether a state is full is as good as
/// random, so there is no branch on it, nor a conditional expression that would become one.
inline std::uint8_t* AnsEncoder::push(std::uint32_t& lane, unsigned symbol,
                                      std::uint8_t* words) const {
  const Entry& entry = entries_[symbol];
  std::uint64_t state = lane;
  store(words - 2, static_cast<std::uint16_t>(state));  // stays only when the state is full
  // All ones when the state is full, else 0.
  const std::int64_t full = (static_cast<std::int64_t>(entry.limit) - 1 - lane) >> 63;
  words += 2 * full;
  state >>= full & kWordBits;
  const std::uint64_t quotient = state * entry.reciprocal >> kReciprocalBits;
  const std::uint64_t offset = state - quotient * entry.frequency;
  lane = static_cast<std::uint32_t>(quotient << kProbabilityBits | slots_[entry.begin + offset]);
  return words;
}

std::size_t AnsEncoder::encode(const std::uint8_t* symbols, std::size_t n, unsigned /*streams*/,
                               std::uint8_t* dst, std::uint16_t* sizes) const {
  const std::size_t units = pairs_ ? (n + 1) / 2 : n;
  const std::size_t lanes = std::min<std::size_t>(units, kAnsLanes);
  std::array<std::uint32_t, kAnsLanes> states;
  states.fill(kAnsLowerBound);
  // Backwards from a place where even a word a symbol leaves room for the states in front.
  std::uint8_t* const end = dst + kAnsLanes * kStateBytes + 2 * units + 2;
  std::uint8_t* words = end;
  if (pairs_) {
    for (std::size_t i = units; i-- > 0;) {
      const unsigned second = 2 * i + 1 < n ? symbols[2 * i + 1] : 0;
      words = push(states[i % kAnsLanes], symbols[2 * i] | second << 4, words);
    }
  } else {
    for (std::size_t i = units; i-- > 0;) words = push(states[i % kAnsLanes], symbols[i], words);
  }
  words -= lanes * kStateBytes;
  std::memcpy(words, states.data(), lanes * kStateBytes);
  const auto bytes = static_cast<std::size_t>(end - words);
  std::memmove(dst, words, bytes);
  sizes[0] = static_cast<std::uint16_t>(bytes);
  return bytes <= UINT16_MAX ? bytes : SIZE_MAX;
}

}  // namespace gradwire::entropy
