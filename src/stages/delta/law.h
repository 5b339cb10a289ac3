// How the elements of a class change (docs/format.md 12.3).
// In: counts of a tensor's changes, or bits.
// Out: laws, fitted to the counts; or their bits.
// Assumes: nothing of the bits.
//
// An optimizer step moves all weights about as far. So the class of an element, its reference's
// exponent, says how likely it changes and by how many steps of its own: half as likely an octave.
// Each class has a chain of yes-or-no questions, whose answers are coded as distances between the
// rarer ones: does it change? by more than 1? by more than 2? ...
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bits.h"

namespace gradwire::delta {

inline constexpr unsigned kMaxDepth = 15;
inline constexpr unsigned kMaxLowBits = 31;
inline constexpr unsigned kMaxRestBits = 62;
inline constexpr unsigned kNoRest = 63;  ///< what is past the last question is one more exactly

/// Golomb-Rice codes of the distances between the flags of one value.
struct RunCode {
  unsigned low_bits = 0;
  bool rare = true;  ///< the value whose flags are told
  bool operator==(const RunCode&) const = default;
};

struct Law {
  bool changes = false;                        ///< without it nothing of the class does
  unsigned depth = 0;                          ///< questions behind the first
  std::array<RunCode, kMaxDepth + 1> codes{};  ///< of 1 + depth
  unsigned rest_bits = kNoRest;                ///< of what is left behind the last one
  bool operator==(const Law&) const = default;
};

/// What is known of a class, of all its elements or of some.
struct LawCounts {
  std::uint64_t elements = 0;
  std::array<std::uint64_t, kMaxDepth + 2> above{};  ///< [j]: changes by more than j
  std::uint64_t sum = 0;                             ///< of the sizes of changes, bounded each
  std::uint64_t most = 0;                            ///< largest change

  void note(std::uint64_t size) noexcept {
    for (unsigned j = 0; j < above.size() && size > j; ++j) ++above[j];
    sum += size < kMostSummed ? size : kMostSummed;
    most = size > most ? size : most;
  }
  void add(const LawCounts& other) noexcept;

 private:
  static constexpr std::uint64_t kMostSummed = std::uint64_t{1} << 40;
};

/// Bits that a law makes of what was counted, about.
double cost(const Law& law, const LawCounts& counts);
/// The cheapest law; one that can tell any change if `is_sample`, as others may be larger.
Law fit_law(const LawCounts& counts, bool is_sample);

/// Laws of 2^step classes each together.
struct LawFit {
  unsigned step = 0;
  std::vector<Law> laws;
  double bits = 0;  ///< about
};

/// The number of classes with the cheapest laws. `fine` has the counts of single keys.
LawFit fit_laws(std::span<const LawCounts> fine, bool is_sample);

void write_law(const Law& law, BitWriter& out);
/// Bits of a law with changes.
constexpr unsigned law_bits(unsigned depth) noexcept { return 1 + 4 + 6 * (depth + 1) + 6; }
inline constexpr unsigned kMaxLawBits = law_bits(kMaxDepth);
/// What the reader has overrun is seen by it.
Law read_law(BitReader& in);

}  // namespace gradwire::delta
