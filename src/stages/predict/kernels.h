// Convolution kernels, each tap given a guess from the earlier ones (docs/format.md 6): the
// lattice coder.
// In: the words of whole kernels, tap parameters, a scale a kernel.
// Out: symbols and raw bits in tap-major order, escapes; and back.
// Assumes: n is a multiple of taps x inner. Integers only; a decoder's symbols are below the
// alphabet.
#pragma once

#include <vector>

#include "base/bits.h"
#include "base/float_format.h"
#include "base/pipeline_parameters.h"

namespace gradwire::predict {

inline constexpr std::int32_t kMaxKernelScale = 1024;
inline constexpr std::int32_t kMaxCoefficientSum = 65535;

/// How one tap is guessed: unit h, exponent field tau of the lattice step, coefficients of earlier
/// taps / 256.
struct Tap {
  unsigned h = 1;
  std::int32_t tau = 0;
  std::vector<std::int16_t> coefficients;
};

struct Taps {
  unsigned effort =
      1;  ///< a + 1: the step is 2^a to 2^(a + 1) times smaller than the expected error
  std::int32_t base = 0;
  std::vector<Tap> taps;
};

Taps read_taps(ByteReader& in, unsigned count);
void write_taps(const Taps& taps, ByteWriter& out);

/// L: fraction bits that the lattice sees.
unsigned kernel_fraction(DType dtype) noexcept;
/// H and A for an effort.
unsigned kernel_reach(unsigned effort) noexcept;
unsigned kernel_alphabet(unsigned effort) noexcept;

/// A chunk of kernels.
struct KernelRun {
  DType dtype;
  const KernelParameters* parameters;
  const Taps* taps;
  const std::int32_t* scales;  ///< C, one a kernel
  const std::uint8_t* mask;    ///< 1 where an element is coded; null: all are
  std::size_t n;               ///< elements

  std::size_t kernels() const noexcept { return n / parameters->taps; }
};

/// Working memory, tap after tap: words, and the values that later taps are guessed from.
template <typename Word>
struct KernelScratch {
  std::vector<Word> words;
  std::vector<std::int16_t> values;
  std::vector<std::uint8_t> live;  ///< 1 where an element is coded
};

/// What coding leaves of a chunk, in tap-major order of the coded elements.
template <typename Word>
struct KernelSymbols {
  std::uint8_t* symbols;  ///< n
  std::size_t first_tap;  ///< how many belong to tap 0
  std::size_t count;
  Word* low;             ///< low records (kept - L bits), one a coded element
  std::uint8_t* second;  ///< count of each when counted
  std::size_t escapes;
};

template <typename Word>
void apply_kernels(const KernelRun& run, const Word* words, KernelScratch<Word>& scratch,
                   KernelSymbols<Word>& out, BitWriter& raw, Bytes& escapes);

/// Input of the inverse. `low` is null when there are no low records or they are counted.
template <typename Word>
struct KernelInput {
  const std::uint8_t* symbols;
  const std::uint8_t* second;
  const Word* low;
  const std::uint8_t* escapes;
  std::size_t escape_count;
};

/// Fills words (located zeros too). False when the input contradicts itself.
template <typename Word>
bool restore_kernels(const KernelRun& run, const KernelInput<Word>& input,
                     KernelScratch<Word>& scratch, SlackBitReader& raw, Word* words);

}  // namespace gradwire::predict
