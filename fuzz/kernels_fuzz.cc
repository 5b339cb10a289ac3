// In: parameters and taps of the kernel predictor, scales, a mask, then symbols, raw bits and
// escapes. Out: restoring them is safe, and the words restored survive another turn.

#include "base/float_format.h"
#include "fuzz_input.h"
#include "stages/predict/kernels.h"

namespace {

using namespace gradwire;
using namespace gradwire::predict;
using fuzz::expect;

KernelParameters draw_parameters(fuzz::FuzzInput& input, DType dtype) {
  KernelParameters p;
  const unsigned fraction = float_format(dtype).fraction_bits;
  p.kept = static_cast<unsigned>(input.between(kernel_fraction(dtype), fraction));
  p.counted = p.kept > kernel_fraction(dtype) && input.flag();
  p.low_count =
      p.counted ? static_cast<unsigned>(input.between(0, p.kept - kernel_fraction(dtype))) : 0;
  p.taps = input.between(2, 64);
  p.inner = input.between(1, 9);
  return p;
}

template <typename Word>
struct Chunk {
  Bytes symbols, second, escapes, raw;
  std::vector<Word> low;
  std::size_t escape_count = 0;
};

template <typename Word>
bool decode(const KernelRun& run, const Chunk<Word>& chunk, std::vector<Word>& words) {
  const KernelParameters& p = *run.parameters;
  const bool low = !p.counted && p.kept > kernel_fraction(run.dtype);
  const KernelInput<Word> in{chunk.symbols.data(), p.counted ? chunk.second.data() : nullptr,
                             low ? chunk.low.data() : nullptr, chunk.escapes.data(),
                             chunk.escape_count};
  Bytes readable(chunk.raw.size() + kBitSlack, 0xA5);
  std::copy(chunk.raw.begin(), chunk.raw.end(), readable.begin());
  SlackBitReader raw(ByteSpan(readable).first(chunk.raw.size()));
  KernelScratch<Word> scratch;
  return restore_kernels(run, in, scratch, raw, words.data());
}

template <typename Word>
Chunk<Word> encode(const KernelRun& run, const std::vector<Word>& words) {
  Chunk<Word> chunk;
  chunk.symbols.resize(run.n);
  chunk.second.resize(run.n);
  chunk.low.resize(run.n);
  chunk.raw.resize(run.n * (sizeof(Word) + 1) + 64);
  KernelSymbols<Word> out{chunk.symbols.data(), 0, 0, chunk.low.data(), chunk.second.data(), 0};
  BitWriter raw(chunk.raw.data());
  KernelScratch<Word> scratch;
  apply_kernels(run, words.data(), scratch, out, raw, chunk.escapes);
  chunk.raw.resize(raw.finish());
  chunk.escape_count = out.escapes;
  return chunk;
}

template <typename Word>
void check(fuzz::FuzzInput& input, DType dtype) {
  const KernelParameters p = draw_parameters(input, dtype);
  const std::size_t kernels = static_cast<std::size_t>(p.inner * input.between(1, 8));
  const std::size_t n = kernels * static_cast<std::size_t>(p.taps);
  const Bytes taps_bytes = input.bytes(static_cast<std::size_t>(input.between(0, 5000)));
  ByteReader taps_in(taps_bytes);
  const Taps taps = read_taps(taps_in, static_cast<unsigned>(p.taps));
  std::vector<std::int32_t> scales(kernels);
  for (auto& scale : scales) scale = input.signed_between(-kMaxKernelScale, kMaxKernelScale);
  std::vector<std::uint8_t> mask(n, 1);
  const bool masked = input.flag();
  for (std::size_t i = 0; masked && i < n; ++i) mask[i] = input.flag();
  const KernelRun run{dtype, &p, &taps, scales.data(), masked ? mask.data() : nullptr, n};
  Chunk<Word> chunk;
  chunk.symbols = input.bytes(n);
  chunk.symbols.resize(n);
  for (auto& symbol : chunk.symbols)
    symbol = static_cast<std::uint8_t>(symbol % kernel_alphabet(taps.effort));
  chunk.second = input.bytes(n);
  chunk.second.resize(n);
  for (auto& v : chunk.second) v &= 15;
  for (std::size_t i = 0; i < n; ++i) {
    chunk.low.push_back(static_cast<Word>(input.between(0, 65535) &
                                          ((1u << (p.kept - kernel_fraction(dtype))) - 1)));
  }
  chunk.escape_count = static_cast<std::size_t>(input.between(0, n));
  chunk.escapes = input.bytes(chunk.escape_count * sizeof(Word));
  chunk.escapes.resize(chunk.escape_count * sizeof(Word));
  chunk.raw = input.rest();
  std::vector<Word> words(n);
  if (!decode(run, chunk, words)) return;
  // A value that was restored as zero where none was located stays an ordinary one.
  const Chunk<Word> again = encode(run, words);
  std::vector<Word> back(n);
  expect(decode(run, again, back), "an encoder's kernels are sound");
  expect(back == words, "words come back");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::FuzzInput input(data, size);
  constexpr DType kDtypes[] = {DType::f32, DType::bf16, DType::f16};
  const DType dtype = kDtypes[input.between(0, 2)];
  try {
    if (dtype == DType::f32)
      check<std::uint32_t>(input, dtype);
    else
      check<std::uint16_t>(input, dtype);
  } catch (const Error&) {
  }
  return 0;
}
