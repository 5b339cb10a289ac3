#include "lossless/estimate_kernels.h"

#include <algorithm>

#include "lossless/information.h"
#include "lossless/scratch.h"
#include "stages/entropy/integer_array.h"
#include "stages/predict/kernels_fit.h"

namespace gradwire::lossless {
namespace {

constexpr std::uint64_t kFitElements = 36864;
constexpr std::uint64_t kEffortElements = 4096;  ///< enough to compare four efforts

}  // namespace

template <typename Word>
predict::Taps fit_kernels(const TensorView& tensor, const KernelParameters& p) {
  // A contiguous piece from the middle: neighbouring kernels differ as much as distant ones.
  const std::uint64_t group = p.taps * p.inner;
  const std::uint64_t groups = tensor.data.size() / sizeof(Word) / group;
  const std::uint64_t used = std::min(groups, std::max<std::uint64_t>(1, kFitElements / group));
  std::vector<Word> buffer;
  const auto n = static_cast<std::size_t>(used * group);
  const Word* words = load_words(tensor, (groups - used) / 2 * group, n, buffer);
  return predict::fit_taps(tensor.dtype, p, words, n);
}

template <typename Word>
KernelSample<Word>::KernelSample(DType dtype, const Sample<Word>& sample, const KernelParameters& p,
                                 const predict::Taps& taps) {
  const auto group = static_cast<std::size_t>(p.taps * p.inner);
  std::uint64_t live = 0;
  const Word* words = sample.words.data();
  for (const auto& run : sample.runs) {
    Piece piece;
    const std::size_t n = run.n / group * group;
    piece.words.assign(words, words + n);
    words += run.n;
    if (n == 0 || live >= kEffortElements) continue;
    std::vector<std::uint8_t> flags(n);
    piece.mask.resize(n);
    for (std::size_t i = 0; i < n; ++i) {
      piece.mask[i] = piece.words[i] != 0;
      flags[i] = piece.mask[i] ^ 1;
    }
    piece.scales.resize(n / static_cast<std::size_t>(p.taps));
    predict::fit_kernel_scales(dtype, p, taps, piece.words.data(), n, piece.scales);
    Bytes side;
    ByteWriter writer(side);
    piece.zeros = std::count(flags.begin(), flags.end(), std::uint8_t{1}) > 0;
    if (piece.zeros) entropy::write_flags(flags, writer);
    entropy::write_integers(piece.scales, writer);
    side_bits += 8 * side.size();
    elements += n;
    live +=
        n - static_cast<std::size_t>(std::count(piece.words.begin(), piece.words.end(), Word{0}));
    pieces.push_back(std::move(piece));
  }
}

template <typename Word>
std::uint64_t estimate_kernels(const KernelSample<Word>& sample, const Plan& plan) {
  const KernelParameters& p = plan.header.kernels;
  const DType dtype = plan.header.dtype;
  std::array<std::array<std::uint32_t, 256>, 3> counts{};
  std::uint64_t bits = sample.side_bits;
  Scratch scratch;
  for (const auto& piece : sample.pieces) {
    const std::size_t n = piece.words.size();
    predict::KernelSymbols<Word> chunk{
        Scratch::sized(scratch.symbols, n), 0, 0, Scratch::sized<Word>(scratch.records, n),
        Scratch::sized(scratch.second, n),  0};
    scratch.raw.resize(n * (sizeof(Word) + 1) + 64);
    scratch.escapes.clear();
    BitWriter raw(scratch.raw.data());
    const predict::KernelRun run{
        dtype, &p, &plan.taps, piece.scales.data(), piece.zeros ? piece.mask.data() : nullptr, n};
    predict::apply_kernels(run, piece.words.data(),
                           std::get<predict::KernelScratch<Word>>(scratch.kernels), chunk, raw,
                           scratch.escapes);
    for (std::size_t i = 0; i < chunk.count; ++i)
      ++counts[i < chunk.first_tap ? 0 : 1][chunk.symbols[i]];
    if (p.counted) {
      for (std::size_t i = 0; i < chunk.count; ++i) ++counts[2][chunk.second[i]];
    } else {
      bits += chunk.count * (p.kept - predict::kernel_fraction(dtype));
    }
    bits += 8 * (raw.finish() + scratch.escapes.size());
  }
  if (sample.elements == 0) return UINT64_MAX;
  for (const auto& sequence : counts) bits += information_bits<std::uint32_t>(sequence);
  // Huffman's loss and the tables: about 0.03 bit an element.
  bits += sample.elements / 32;
  Bytes taps;
  ByteWriter writer(taps);
  predict::write_taps(plan.taps, writer);
  const std::uint64_t fixed_bytes = taps.size() + predict::kernel_alphabet(plan.taps.effort) + 8;
  const std::uint64_t n = plan.header.elements;
  return n / sample.elements * bits + n % sample.elements * bits / sample.elements +
         8 * fixed_bytes;
}

#define GRADWIRE_ESTIMATE(Word)                                                         \
  template predict::Taps fit_kernels<Word>(const TensorView&, const KernelParameters&); \
  template struct KernelSample<Word>;                                                   \
  template std::uint64_t estimate_kernels<Word>(const KernelSample<Word>&, const Plan&);
GRADWIRE_ESTIMATE(std::uint16_t)
GRADWIRE_ESTIMATE(std::uint32_t)
#undef GRADWIRE_ESTIMATE

}  // namespace gradwire::lossless
