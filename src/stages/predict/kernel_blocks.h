// What coding and restoring kernels share: their order, guesses, low bits.
// In: a run.
// Out: blocks of kernels, tap after tap.
// Assumes: as kernels.h.
#pragma once

#include <algorithm>

#include "base/counted.h"
#include "stages/predict/kernels.h"
#include "stages/predict/turned.h"

namespace gradwire::predict {

/// Kernels that go through a tap together: what is known of them stays in L1.
inline constexpr std::size_t kKernelBlock = 256;
/// Elements whose raw bits, at most 10 each, are written or read at once.
inline constexpr std::size_t kTogether = 4;

/// Chunks with taps side by side, kernel after kernel, and tap after tap.
class Layout {
 public:
  explicit Layout(const KernelRun& run)
      : taps(static_cast<std::size_t>(run.parameters->taps)),
        kernels(run.kernels()),
        inner_(static_cast<std::size_t>(run.parameters->inner)) {}

  /// Elements of a chunk, tap after tap.
  template <typename Element>
  void turn(const Element* from, Element* to) const {
    if (inner_ == 1) return turn_taps(from, taps, kernels, kernels, to);
    for_each_distant([&](std::size_t place, std::size_t turned) { to[turned] = from[place]; });
  }
  /// And back.
  template <typename Element>
  void turn_back(const Element* from, Element* to) const {
    if (inner_ == 1) return predict::turn_back(from, taps, kernels, kernels, to);
    for_each_distant([&](std::size_t place, std::size_t turned) { to[place] = from[turned]; });
  }

  const std::size_t taps;
  const std::size_t kernels;

 private:
  /// function(place in the chunk, place tap after tap) where taps lie apart.
  template <typename Function>
  void for_each_distant(const Function& function) const {
    for (std::size_t first = 0; first < kernels; first += inner_) {
      for (std::size_t t = 0; t < taps; ++t) {
        for (std::size_t i = 0; i < inner_; ++i)
          function(first * taps + t * inner_ + i, t * kernels + first + i);
      }
    }
  }

  std::size_t inner_;
};

/// X of kernels first .. first + n for a tap, from the values of the taps before it.
inline void sum_guess(const Tap& tap, const std::int16_t* values, const Layout& layout,
                      std::size_t first, std::size_t n, std::int32_t* sums) {
  std::fill_n(sums, n, 0);
  for (std::size_t l = 0; l < tap.coefficients.size(); ++l) {
    const std::int32_t coefficient = tap.coefficients[l];
    if (coefficient == 0) continue;
    const std::int16_t* earlier = values + l * layout.kernels + first;
    for (std::size_t j = 0; j < n; ++j) sums[j] += coefficient * std::int32_t{earlier[j]};
  }
}

template <typename Word>
void prepare(const KernelRun& run, const Layout& layout, KernelScratch<Word>& scratch) {
  if (scratch.values.size() < run.n) {
    scratch.words.resize(run.n);
    scratch.values.resize(run.n);
  }
  if (run.mask == nullptr) return;
  if (scratch.live.size() < run.n) scratch.live.resize(run.n);
  layout.turn(run.mask, scratch.live.data());
}

/// Flags of elements that are coded, tap after tap, from a place on; null: all are.
template <typename Word>
const std::uint8_t* live_from(const KernelScratch<Word>& scratch, const KernelRun& run,
                              std::size_t at) {
  return run.mask == nullptr ? nullptr : scratch.live.data() + at;
}

/// Calls function(t, first, n) for blocks of kernels, tap after tap; stops when it returns false.
template <typename Function>
bool for_each_block(const Layout& layout, const Function& function) {
  for (std::size_t t = 0; t < layout.taps; ++t) {
    for (std::size_t first = 0; first < layout.kernels; first += kKernelBlock) {
      if (!function(t, first, std::min(kKernelBlock, layout.kernels - first))) return false;
    }
  }
  return true;
}

/// Low bits of words (docs/format.md 6.5): records, or raw bits and their count.
class LowBits {
 public:
  explicit LowBits(const KernelRun& run)
      : bits(run.parameters->kept - kernel_fraction(run.dtype)),
        counted(run.parameters->counted),
        dropped(float_format(run.dtype).fraction_bits - run.parameters->kept),
        shape_{bits, run.parameters->low_count} {}

  /// Notes those of a word; returns the count, or 0.
  template <typename Word>
  std::uint8_t put(Word word, Word& record, BitWriter& raw) const noexcept {
    record = static_cast<Word>((word >> dropped) & ((Word{1} << bits) - 1));
    return counted ? static_cast<std::uint8_t>(put_counted(record, shape_, raw)) : std::uint8_t{0};
  }
  /// False for a count that asks for more bits than there are.
  template <typename Word>
  bool get(const KernelInput<Word>& input, std::size_t k, SlackBitReader& raw,
           Word& low) const noexcept {
    std::uint64_t record = 0;
    if (!counted) {
      record = input.low[k];
    } else if (!get_counted(input.second[k], shape_, raw, record)) {
      return false;
    }
    low = static_cast<Word>(record << dropped);
    return true;
  }

  const unsigned bits;
  const bool counted;
  const unsigned dropped;

 private:
  CountShape shape_;
};

}  // namespace gradwire::predict
