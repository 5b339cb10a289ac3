#include "stages/predict/kernels.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "base/fail.h"
#include "stages/predict/lattice.h"

namespace gradwire::predict {
namespace {

constexpr std::int32_t kMaxParameter = 65536;

std::int32_t bounded(ByteReader& in, const char* field) {
  const std::size_t at = in.offset();
  const std::int64_t value = unzigzag(in.varint(field));
  if (value < -kMaxParameter || value > kMaxParameter) {
    fail(ErrorKind::corrupt, "{} at byte {}: {} found, -65536 to 65536 allowed", field, at, value);
  }
  return static_cast<std::int32_t>(value);
}

/// Calls function(i, j) for tap t of every kernel j, i its index in the chunk; stops when it
/// returns false.
template <typename Function>
bool for_each_kernel(const KernelRun& run, std::size_t t, const Function& function) {
  const auto inner = static_cast<std::size_t>(run.parameters->inner);
  const std::size_t group = static_cast<std::size_t>(run.parameters->taps) * inner;
  std::size_t j = 0;
  for (std::size_t start = t * inner; start < run.n; start += group) {
    for (std::size_t i = start; i < start + inner; ++i, ++j) {
      if (!function(i, j)) return false;
    }
  }
  return true;
}

/// X of every kernel for tap t, from the values of the taps before it.
void sum_guess(const Tap& tap, std::size_t kernels, KernelScratch& scratch) {
  std::fill_n(scratch.sums.begin(), kernels, 0);
  for (std::size_t l = 0; l < tap.coefficients.size(); ++l) {
    const std::int32_t coefficient = tap.coefficients[l];
    const std::int32_t* values = scratch.values.data() + l * kernels;
    std::int32_t* sums = scratch.sums.data();
    if (coefficient == 0) continue;
    for (std::size_t j = 0; j < kernels; ++j) sums[j] += coefficient * values[j];
  }
}

void prepare(const KernelRun& run, KernelScratch& scratch) {
  if (scratch.values.size() < run.n) scratch.values.resize(run.n);
  if (scratch.sums.size() < run.kernels()) scratch.sums.resize(run.kernels());
}

}  // namespace

unsigned kernel_fraction(DType dtype) noexcept { return dtype == DType::f16 ? 10 : 7; }
unsigned kernel_reach(unsigned effort) noexcept { return effort <= 1 ? 16 : effort == 2 ? 24 : 48; }
unsigned kernel_alphabet(unsigned effort) noexcept { return 2 * kernel_reach(effort) + 16; }

Taps read_taps(ByteReader& in, unsigned count) {
  Taps taps;
  const std::size_t at = in.offset();
  taps.effort = in.u8("effort");
  if (taps.effort > 3)
    fail(ErrorKind::corrupt, "effort at byte {}: {} found, at most 3 allowed", at, taps.effort);
  taps.base = bounded(in, "taps base");
  taps.taps.resize(count);
  for (unsigned t = 0; t < count; ++t) {
    Tap& tap = taps.taps[t];
    const std::size_t tap_at = in.offset();
    tap.h = in.u8("h");
    if (tap.h < 1 || tap.h > 24)
      fail(ErrorKind::corrupt, "h at byte {}: {} found, 1 to 24 allowed", tap_at, tap.h);
    tap.tau = bounded(in, "tau");
    std::int32_t sum = 0;
    for (unsigned l = 0; l < t; ++l) {
      tap.coefficients.push_back(static_cast<std::int16_t>(in.u16("coefficients")));
      sum += std::abs(std::int32_t{tap.coefficients.back()});
    }
    if (sum > kMaxCoefficientSum) {
      fail(ErrorKind::corrupt,
           "coefficients at byte {}: absolute values sum to {}, at most {} allowed", tap_at, sum,
           kMaxCoefficientSum);
    }
  }
  in.expect_end("taps");
  return taps;
}

void write_taps(const Taps& taps, ByteWriter& out) {
  out.u8(static_cast<std::uint8_t>(taps.effort));
  out.varint(zigzag(taps.base));
  for (const Tap& tap : taps.taps) {
    out.u8(static_cast<std::uint8_t>(tap.h));
    out.varint(zigzag(tap.tau));
    for (const std::int16_t coefficient : tap.coefficients)
      out.u16(static_cast<std::uint16_t>(coefficient));
  }
}

template <typename Word>
void apply_kernels(const KernelRun& run, const Word* words, KernelScratch& scratch,
                   KernelSymbols<Word>& out, BitWriter& raw, Bytes& escapes) {
  prepare(run, scratch);
  const Lattice<Word> lattice(run);
  const std::size_t kernels = run.kernels();
  std::size_t count = 0;
  out.escapes = 0;
  for (std::size_t t = 0; t < run.parameters->taps; ++t) {
    const Tap& tap = run.taps->taps[t];
    sum_guess(tap, kernels, scratch);
    std::int32_t* values = scratch.values.data() + t * kernels;
    const std::int32_t* sums = scratch.sums.data();
    for_each_kernel(run, t, [&](std::size_t i, std::size_t j) {
      const Word word = words[i];
      if (run.mask != nullptr && run.mask[i] == 0) {
        values[j] = 0;
        return true;
      }
      const std::int32_t scale = run.scales[j];
      values[j] = lattice.value(word, scale);
      const Coded coded = lattice.encode(word, lattice.guess(sums[j], tap.h), tap.tau + scale);
      raw.put(coded.raw, coded.raw_bits);
      out.symbols[count] = coded.symbol;
      if (lattice.low_bits > 0) out.second[count] = lattice.put_low(word, out.low[count], raw);
      ++count;
      if (coded.symbol == lattice.escape) {
        std::uint8_t bytes[8];
        store(bytes, static_cast<std::uint64_t>(word));
        escapes.insert(escapes.end(), bytes, bytes + sizeof(Word));
        ++out.escapes;
      }
      return true;
    });
    if (t == 0) out.first_tap = count;
  }
  out.count = count;
}

template <typename Word>
bool restore_kernels(const KernelRun& run, const KernelInput<Word>& input, KernelScratch& scratch,
                     SlackBitReader& raw, Word* words) {
  prepare(run, scratch);
  const Lattice<Word> lattice(run);
  const std::size_t kernels = run.kernels();
  std::size_t k = 0;
  std::size_t escapes = 0;
  for (std::size_t t = 0; t < run.parameters->taps; ++t) {
    const Tap& tap = run.taps->taps[t];
    sum_guess(tap, kernels, scratch);
    std::int32_t* values = scratch.values.data() + t * kernels;
    const bool sound = for_each_kernel(run, t, [&](std::size_t i, std::size_t j) {
      if (run.mask != nullptr && run.mask[i] == 0) {
        words[i] = 0;
        values[j] = 0;
        return true;
      }
      Word word = 0;
      if (!lattice.decode(input.symbols[k], lattice.guess(scratch.sums[j], tap.h),
                          tap.tau + run.scales[j], raw, word))
        return false;
      if (lattice.low_bits > 0 && !lattice.get_low(input, k, raw, word)) return false;
      if (input.symbols[k] == lattice.escape) {
        if (escapes == input.escape_count) return false;
        const Word listed = load<Word>(input.escapes + sizeof(Word) * escapes++);
        if (!lattice.agrees(listed, word)) return false;
        word = listed;
      }
      ++k;
      words[i] = word;
      values[j] = lattice.value(word, run.scales[j]);
      return true;
    });
    if (!sound) return false;
  }
  return escapes == input.escape_count;
}

#define GRADWIRE_KERNELS(Word)                                                                    \
  template void apply_kernels<Word>(const KernelRun&, const Word*, KernelScratch&,                \
                                    KernelSymbols<Word>&, BitWriter&, Bytes&);                    \
  template bool restore_kernels<Word>(const KernelRun&, const KernelInput<Word>&, KernelScratch&, \
                                      SlackBitReader&, Word*);

GRADWIRE_KERNELS(std::uint16_t)
GRADWIRE_KERNELS(std::uint32_t)
#undef GRADWIRE_KERNELS

}  // namespace gradwire::predict
