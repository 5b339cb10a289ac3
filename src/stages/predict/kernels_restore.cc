#include <array>
#include <cstring>

#include "base/clones.h"
#include "stages/predict/kernel_blocks.h"
#include "stages/predict/lattice.h"

namespace gradwire::predict {
namespace {

template <typename Word>
class Restorer {
 public:
  Restorer(const KernelRun& run, const KernelInput<Word>& input, KernelScratch<Word>& scratch,
           SlackBitReader& raw)
      : run_(run),
        layout_(run),
        lattice_(run),
        low_(run),
        scratch_(scratch),
        input_(input),
        raw_(raw) {
    prepare(run, layout_, scratch);
  }

  GRADWIRE_CLONES bool operator()(Word* words) {
    const bool sound = for_each_block(layout_, [&](std::size_t t, std::size_t first,
                                                   std::size_t n) { return restore(t, first, n); });
    if (!sound || escapes_ != input_.escape_count) return false;
    layout_.turn_back(scratch_.words.data(), words);
    return true;
  }

 private:
  bool restore(std::size_t t, std::size_t first, std::size_t n) {
    const std::size_t at = t * layout_.kernels + first;
    const Tap& tap = run_.taps->taps[t];
    const std::int32_t* scales = run_.scales + first;
    const std::uint8_t* live = live_from(scratch_, run_, at);
    Word* words = scratch_.words.data() + at;
    std::int16_t* values = scratch_.values.data() + at;
    const std::uint8_t* symbols = spread_symbols(live, n);
    sum_guess(tap, scratch_.values.data(), layout_, first, n, sums_.data());
    lattice_.expect(tap, symbols, sums_.data(), scales, n, elements_.data());
    const bool plain = live == nullptr && low_.bits == 0;
    if (!(plain ? take_raw(n) : take_raw_and_low(live, n))) return false;
    if (!lattice_.settle(elements_.data(), scales, n, words, values)) return false;
    for (std::size_t j = 0; !plain && j < n; ++j) {
      const bool dead = live != nullptr && live[j] == 0;
      words[j] = dead ? Word{0} : static_cast<Word>(words[j] | lows_[j]);
      if (dead) values[j] = 0;
    }
    return take_escapes(symbols, live, scales, n, words, values);
  }

  /// Symbols of a block, with any one where an element is located.
  const std::uint8_t* spread_symbols(const std::uint8_t* live, std::size_t n) {
    const std::uint8_t* symbols = input_.symbols + next_;
    if (live == nullptr) return symbols;
    for (std::size_t j = 0, k = 0; j < n; ++j) spread_[j] = live[j] != 0 ? symbols[k++] : 0;
    return spread_.data();
  }

  bool take_raw(std::size_t n) {
    SlackBitReader raw = raw_;  // in registers
    for (std::size_t j = 0; j < n; j += kTogether) {
      const std::uint64_t window = raw.window();
      unsigned used = 0;
      for (std::size_t i = j; i < std::min(n, j + kTogether); ++i) {
        const unsigned bits = elements_[i].raw_bits();
        elements_[i].add(static_cast<std::uint32_t>(window >> used) & ((1U << bits) - 1));
        used += bits;
      }
      raw.skip(used);
    }
    raw_ = raw;
    next_ += n;
    return true;
  }

  bool take_raw_and_low(const std::uint8_t* live, std::size_t n) {
    for (std::size_t j = 0; j < n; ++j) {
      lows_[j] = 0;
      if (live != nullptr && live[j] == 0) {
        elements_[j] = {0};
        continue;
      }
      elements_[j].add(static_cast<std::uint32_t>(raw_.get(elements_[j].raw_bits())));
      if (low_.bits > 0 && !low_.get(input_, next_, raw_, lows_[j])) return false;
      ++next_;
    }
    return true;
  }

  /// Words of escapes; false when one is missing or contradicts the bits that repeat it.
  bool take_escapes(const std::uint8_t* symbols, const std::uint8_t* live,
                    const std::int32_t* scales, std::size_t n, Word* words, std::int16_t* values) {
    if (std::memchr(symbols, lattice_.escape(), n) == nullptr) return true;
    for (std::size_t j = 0; j < n; ++j) {
      if (symbols[j] != lattice_.escape() || (live != nullptr && live[j] == 0)) continue;
      if (escapes_ == input_.escape_count) return false;
      const Word listed = load<Word>(input_.escapes + sizeof(Word) * escapes_++);
      if (!lattice_.agrees(listed, words[j])) return false;
      words[j] = listed;
      values[j] = lattice_.value_of(listed, scales[j]);
    }
    return true;
  }

  const KernelRun& run_;
  const Layout layout_;
  const Lattice<Word> lattice_;
  const LowBits low_;
  KernelScratch<Word>& scratch_;
  const KernelInput<Word>& input_;
  SlackBitReader& raw_;
  std::size_t next_ = 0;  ///< coded element
  std::size_t escapes_ = 0;
  std::array<std::int32_t, kKernelBlock> sums_;
  std::array<RestoredElement, kKernelBlock> elements_;
  std::array<std::uint8_t, kKernelBlock> spread_;
  std::array<Word, kKernelBlock> lows_;
};

}  // namespace

template <typename Word>
bool restore_kernels(const KernelRun& run, const KernelInput<Word>& input,
                     KernelScratch<Word>& scratch, SlackBitReader& raw, Word* words) {
  return Restorer<Word>(run, input, scratch, raw)(words);
}

template bool restore_kernels(const KernelRun&, const KernelInput<std::uint16_t>&,
                              KernelScratch<std::uint16_t>&, SlackBitReader&, std::uint16_t*);
template bool restore_kernels(const KernelRun&, const KernelInput<std::uint32_t>&,
                              KernelScratch<std::uint32_t>&, SlackBitReader&, std::uint32_t*);

}  // namespace gradwire::predict
