// rANS with 32 interleaved lanes and 12-bit probabilities (docs/format.md 4.3).
// In: frequencies that sum to 4096.
// Out: one stream: the lanes' states, then 16-bit words.
// Assumes: the frequencies were checked; of coded bytes, nothing but the slack of sequence.h. The
// surprises: the encoder works backwards, from the last symbol to the first, so that the decoder
// can go forwards; the states it ends with are what the stream begins with; and all lanes take
// their words from one queue, so neither side can start in the middle.
// Source: Duda 2013; interleaving as in Giesen 2014, arXiv:1402.3392.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "stages/entropy/code_lengths.h"
#include "stages/entropy/sequence.h"

namespace gradwire::entropy {

inline constexpr unsigned kAnsLanes = 32;
inline constexpr std::uint32_t kAnsSlots = 1u << kProbabilityBits;
inline constexpr std::uint32_t kAnsLowerBound = 1u << 15;

/// For each symbol in turn, the slots it owns in the order of their offsets: slots[B(s) + offset].
using SlotOrder = std::array<std::uint16_t, kAnsSlots>;

/// Contiguous slots, or alias slots for alphabets of at most 16 symbols that are not pairs. The
/// alphabet counts, not the symbols used.
SlotOrder slot_order(const Table& table) noexcept;

class AnsEncoder final : public SequenceEncoder {
 public:
  explicit AnsEncoder(const Table& table);
  std::size_t encode(const std::uint8_t* symbols, std::size_t n, unsigned streams_log2,
                     std::uint8_t* dst, std::uint16_t* sizes) const override;

 private:
  /// All that one step needs of a symbol; the division by its frequency is a multiplication.
  struct Entry {
    std::uint64_t reciprocal;
    std::uint32_t limit;  ///< a state from here on must give away 16 bits first
    std::uint16_t frequency;
    std::uint16_t begin;
  };

  std::uint8_t* push(std::uint32_t& lane, unsigned symbol, std::uint8_t* words) const;

  bool pairs_;
  std::array<Entry, kMaxSymbols> entries_;
  SlotOrder slots_;
};

class AnsDecoder final : public SequenceDecoder {
 public:
  explicit AnsDecoder(const Table& table);
  bool decode(const std::uint8_t* src, std::span<const std::uint16_t> sizes, std::size_t n,
              unsigned streams_log2, std::uint8_t* symbols) const override;

 private:
  bool pairs_;
  /// By slot: symbol, frequency and offset.
  alignas(64) std::array<std::uint32_t, kAnsSlots> table_;
};

}  // namespace gradwire::entropy
