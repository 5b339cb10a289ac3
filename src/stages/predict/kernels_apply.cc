#include <array>
#include <cstring>

#include "base/clones.h"
#include "stages/predict/kernel_blocks.h"
#include "stages/predict/lattice.h"

namespace gradwire::predict {
namespace {

template <typename Word>
class Applier {
 public:
  Applier(const KernelRun& run, const Word* words, KernelScratch<Word>& scratch,
          KernelSymbols<Word>& out, BitWriter& raw, Bytes& escapes)
      : run_(run),
        layout_(run),
        lattice_(run),
        low_(run),
        words_(words),
        scratch_(scratch),
        out_(out),
        raw_(raw),
        escapes_(escapes) {
    prepare(run, layout_, scratch);
  }

  GRADWIRE_CLONES void operator()() {
    layout_.turn(words_, scratch_.words.data());
    out_.count = out_.first_tap = out_.escapes = 0;
    for_each_block(layout_, [&](std::size_t t, std::size_t first, std::size_t n) {
      const Tap& tap = run_.taps->taps[t];
      const std::size_t at = t * layout_.kernels + first;
      const Word* words = scratch_.words.data() + at;
      std::int16_t* values = scratch_.values.data() + at;
      sum_guess(tap, scratch_.values.data(), layout_, first, n, sums_.data());
      lattice_.encode(tap, words, sums_.data(), run_.scales + first, n, coded_.data(), values);
      if (run_.mask == nullptr && low_.bits == 0) {
        put(words, n);
      } else {
        put_some(live_from(scratch_, run_, at), words, values, n);
      }
      if (t == 0) out_.first_tap = out_.count;
      return true;
    });
  }

 private:
  /// Symbols and raw bits of a block that has no others.
  void put(const Word* words, std::size_t n) {
    std::uint8_t* symbols = out_.symbols + out_.count;
    for (std::size_t j = 0; j < n; ++j) symbols[j] = coded_[j].symbol();
    put_raw(n);
    out_.count += n;
    if (std::memchr(symbols, lattice_.escape(), n) == nullptr) return;
    for (std::size_t j = 0; j < n; ++j) list(symbols[j], words[j]);
  }

  void put_raw(std::size_t n) {
    BitWriter raw = raw_;  // in registers
    for (std::size_t j = 0; j < n; j += kTogether) {
      std::uint64_t value = 0;
      unsigned bits = 0;
      for (std::size_t i = j; i < std::min(n, j + kTogether); ++i) {
        value |= std::uint64_t{coded_[i].raw()} << bits;
        bits += coded_[i].raw_bits();
      }
      raw.put(value, bits);
    }
    raw_ = raw;
  }

  /// The same with zeros that are located, or low bits.
  void put_some(const std::uint8_t* live, const Word* words, std::int16_t* values, std::size_t n) {
    for (std::size_t j = 0; j < n; ++j) {
      if (live != nullptr && live[j] == 0) {
        values[j] = 0;
        continue;
      }
      const std::size_t k = out_.count++;
      out_.symbols[k] = coded_[j].symbol();
      raw_.put(coded_[j].raw(), coded_[j].raw_bits());
      if (low_.bits > 0) out_.second[k] = low_.put(words[j], out_.low[k], raw_);
      list(out_.symbols[k], words[j]);
    }
  }

  void list(std::uint8_t symbol, Word word) {
    if (symbol != lattice_.escape()) return;
    std::uint8_t bytes[8];
    store(bytes, static_cast<std::uint64_t>(word));
    escapes_.insert(escapes_.end(), bytes, bytes + sizeof(Word));
    ++out_.escapes;
  }

  const KernelRun& run_;
  const Layout layout_;
  const Lattice<Word> lattice_;
  const LowBits low_;
  const Word* words_;
  KernelScratch<Word>& scratch_;
  KernelSymbols<Word>& out_;
  BitWriter& raw_;
  Bytes& escapes_;
  std::array<std::int32_t, kKernelBlock> sums_;
  std::array<CodedElement, kKernelBlock> coded_;
};

}  // namespace

template <typename Word>
void apply_kernels(const KernelRun& run, const Word* words, KernelScratch<Word>& scratch,
                   KernelSymbols<Word>& out, BitWriter& raw, Bytes& escapes) {
  Applier<Word>(run, words, scratch, out, raw, escapes)();
}

template void apply_kernels(const KernelRun&, const std::uint16_t*, KernelScratch<std::uint16_t>&,
                            KernelSymbols<std::uint16_t>&, BitWriter&, Bytes&);
template void apply_kernels(const KernelRun&, const std::uint32_t*, KernelScratch<std::uint32_t>&,
                            KernelSymbols<std::uint32_t>&, BitWriter&, Bytes&);

}  // namespace gradwire::predict
