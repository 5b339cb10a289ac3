#include <algorithm>

#include "base/unroll.h"
#include "stages/entropy/ans.h"

namespace gradwire::entropy {
namespace {

constexpr unsigned kWordBits = 16;
constexpr std::uint32_t kUpperBound = 1u << 31;
/// Symbols between two looks at the end: their words stay within the readable slack.
constexpr std::size_t kBurst = kReadSlack / 2;

/// A slot's entry: bits 0-7 symbol, bits 8-19 frequency - 1, bits 20-31 offset.
using SlotTable = std::array<std::uint32_t, kAnsSlots>;

constexpr std::uint32_t slot_entry(std::uint32_t symbol, std::uint32_t frequency,
                                   std::uint32_t offset) {
  return symbol | (frequency - 1) << 8 | offset << 20;
}

/// The states, and the words that they share.
struct Lanes {
  std::array<std::uint32_t, kAnsLanes> states;
  const std::uint8_t* words;
  std::size_t next_word = 0;
  std::size_t word_count;
  bool overrun() const { return next_word > word_count; }
};

/// Takes one symbol out of a state and refills it. Whether a state needs a word is as good as
/// random, so the choice is made by arithmetic: compilers turn conditional expressions into
/// branches here.
inline std::uint8_t pop(const SlotTable& table, Lanes& lanes, std::size_t lane) {
  const std::uint64_t state = lanes.states[lane];
  const std::uint32_t entry = table[state % kAnsSlots];
  const std::uint64_t quotient = state >> kProbabilityBits;
  const std::uint64_t reduced =
      (entry >> 8 & (kAnsSlots - 1)) * quotient + quotient + (entry >> 20);
  // All ones when the state is too low, else 0.
  const std::int64_t low = (static_cast<std::int64_t>(reduced) - kAnsLowerBound) >> 63;
  const std::uint64_t word = load<std::uint16_t>(lanes.words + 2 * lanes.next_word);
  const std::uint64_t mask = static_cast<std::uint64_t>(low);
  lanes.states[lane] = static_cast<std::uint32_t>(reduced << (mask & kWordBits) | (word & mask));
  lanes.next_word -= mask;
  return static_cast<std::uint8_t>(entry);
}

/// Decodes `units` symbols, which `put` receives with their numbers; false when the words run out.
template <typename Put>
bool decode_units(const SlotTable& table, Lanes& shared, std::size_t units, Put put) {
  Lanes lanes = shared;  // a local one, which the bytes that `put` writes cannot alias
  std::size_t i = 0;
  for (; i + kBurst <= units && !lanes.overrun(); i += kBurst) {
    GRADWIRE_UNROLL
    for (std::size_t k = 0; k < kBurst; ++k) {
      put(i + k, pop(table, lanes, i % kAnsLanes + k));
    }
  }
  for (; i < units && !lanes.overrun(); ++i) put(i, pop(table, lanes, i % kAnsLanes));
  shared = lanes;
  return !lanes.overrun();
}

/// An odd last symbol comes with a phantom partner, which must be 0.
bool decode_pairs(const SlotTable& table, Lanes& lanes, std::size_t n, std::uint8_t* symbols) {
  const bool good = decode_units(table, lanes, n / 2, [symbols](std::size_t i, std::uint8_t pair) {
    symbols[2 * i] = pair & 15;
    symbols[2 * i + 1] = pair >> 4;
  });
  if (!good || n % 2 == 0) return good;
  const std::uint8_t last = pop(table, lanes, n / 2 % kAnsLanes);
  symbols[n - 1] = last;
  return last < 16 && !lanes.overrun();
}

bool is_valid_state(std::uint32_t state) { return state >= kAnsLowerBound && state < kUpperBound; }

}  // namespace

AnsDecoder::AnsDecoder(const Table& table) : pairs_(table.pairs), table_{} {
  const SlotOrder slots = slot_order(table);
  const std::uint16_t* slot = slots.data();
  for (std::uint32_t s = 0; s < kMaxSymbols; ++s) {
    for (std::uint32_t offset = 0; offset < table.values[s]; ++offset) {
      table_[*slot++] = slot_entry(s, table.values[s], offset);
    }
  }
}

bool AnsDecoder::decode(const std::uint8_t* src, std::span<const std::uint16_t> sizes,
                        std::size_t n, unsigned /*streams*/, std::uint8_t* symbols) const {
  const std::size_t units = pairs_ ? (n + 1) / 2 : n;
  const std::size_t count = std::min<std::size_t>(units, kAnsLanes);
  const std::size_t state_bytes = count * sizeof(std::uint32_t);
  if (sizes.size() != 1 || sizes[0] < state_bytes || (sizes[0] - state_bytes) % 2 != 0)
    return false;

  Lanes lanes{{}, src + state_bytes, 0, (sizes[0] - state_bytes) / 2};
  lanes.states.fill(kAnsLowerBound);
  std::memcpy(lanes.states.data(), src, state_bytes);
  if (!std::all_of(lanes.states.begin(), lanes.states.end(), is_valid_state)) return false;
  if (!(pairs_ ? decode_pairs(table_, lanes, n, symbols)
               : decode_units(table_, lanes, n, [symbols](std::size_t i, std::uint8_t symbol) {
                   symbols[i] = symbol;
                 }))) {
    return false;
  }
  return lanes.next_word == lanes.word_count &&
         std::all_of(lanes.states.begin(), lanes.states.end(),
                     [](std::uint32_t state) { return state == kAnsLowerBound; });
}

}  // namespace gradwire::entropy
