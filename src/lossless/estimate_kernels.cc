#include "lossless/estimate_kernels.h"

#include <algorithm>

#include "lossless/information.h"
#include "lossless/scratch.h"
#include "stages/entropy/integer_array.h"
#include "stages/predict/kernels_fit.h"

namespace gradwire::lossless {
namespace {

constexpr std::uint64_t kFitElements = 147456;

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
std::uint64_t estimate_kernels(const TensorView& tensor, const Sample& sample, const Plan& plan) {
  const KernelParameters& p = plan.header.kernels;
  std::array<std::array<std::uint32_t, 256>, 3> counts{};
  std::uint64_t bits = 0;
  std::uint64_t elements = 0;
  Scratch scratch;
  for (const Sample::Run& run : sample.runs) {
    const std::size_t n = run.n / static_cast<std::size_t>(p.taps * p.inner) * static_cast<std::size_t>(p.taps * p.inner);
    if (n == 0) continue;
    const Word* words = load_words(tensor, run.first, n, std::get<std::vector<Word>>(scratch.words));
    std::vector<std::uint8_t> mask(n);
    std::vector<std::uint8_t> flags(n);
    for (std::size_t i = 0; i < n; ++i) {
      mask[i] = words[i] != 0;
      flags[i] = mask[i] ^ 1;
    }
    Bytes side;
    ByteWriter side_writer(side);
    const bool zeros = std::count(mask.begin(), mask.end(), std::uint8_t{0}) > 0;
    if (zeros) entropy::write_flags(flags, side_writer);
    scratch.scales.resize(n / static_cast<std::size_t>(p.taps));
    predict::fit_kernel_scales(tensor.dtype, p, plan.taps, words, n, scratch.scales);
    entropy::write_integers(scratch.scales, side_writer);
    predict::KernelSymbols<Word> chunk{Scratch::sized(scratch.symbols, n), 0, 0, Scratch::sized<Word>(scratch.records, n),
                                       Scratch::sized(scratch.second, n), 0};
    scratch.raw.resize(n * (sizeof(Word) + 1) + 64);
    scratch.escapes.clear();
    BitWriter raw(scratch.raw.data());
    const predict::KernelRun kernels{tensor.dtype, &p, &plan.taps, scratch.scales.data(), zeros ? mask.data() : nullptr, n};
    predict::apply_kernels(kernels, words, scratch.kernels, chunk, raw, scratch.escapes);
    for (std::size_t i = 0; i < chunk.count; ++i) ++counts[i < chunk.first_tap ? 0 : 1][chunk.symbols[i]];
    if (p.counted) {
      for (std::size_t i = 0; i < chunk.count; ++i) ++counts[2][chunk.second[i]];
    } else {
      bits += chunk.count * (p.kept - predict::kernel_fraction(tensor.dtype));
    }
    bits += 8 * (side.size() + raw.finish() + scratch.escapes.size());
    elements += n;
  }
  if (elements == 0) return UINT64_MAX;
  for (const auto& sequence : counts) bits += information_bits<std::uint32_t>(sequence);
  // Huffman's loss and the tables: about 0.03 bit an element.
  bits += elements / 32;
  const std::uint64_t n = plan.header.elements;
  return n / elements * bits + n % elements * bits / elements + 8 * 128;
}

#define GRADWIRE_ESTIMATE(Word)                                                         \
  template predict::Taps fit_kernels<Word>(const TensorView&, const KernelParameters&); \
  template std::uint64_t estimate_kernels<Word>(const TensorView&, const Sample&, const Plan&);
GRADWIRE_ESTIMATE(std::uint16_t)
GRADWIRE_ESTIMATE(std::uint32_t)
#undef GRADWIRE_ESTIMATE

}  // namespace gradwire::lossless
