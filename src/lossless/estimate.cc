#include "lossless/estimate.h"

#include <algorithm>
#include <bit>

#include "base/counted.h"
#include "lossless/information.h"
#include "lossless/side_info.h"
#include "stages/entropy/code_lengths.h"
#include "stages/entropy/integer_array.h"
#include "stages/predict/residuals.h"
#include "stages/split/words.h"

namespace gradwire::lossless {
namespace {

constexpr unsigned kPlainWindow = 14;  ///< with zero and escape: 16 symbols, the fastest code
constexpr unsigned kWideWindow = 62;
constexpr std::uint64_t kSmallElements = 8192;  ///< below, the window of prebuilt tables
constexpr std::uint64_t kPairTableBits = 1100;

/// Histogram of residuals (x 2 + flip), from the sample.
struct Residuals {
  std::vector<std::int32_t> values;   ///< d x 2 + flip; kNoResidual for located zeros
  std::int32_t least = 0;             ///< smallest d
  std::vector<std::uint32_t> counts;  ///< by d - least, both flips together
  std::uint64_t coded = 0;            ///< elements that are no zero
  std::uint64_t zeros = 0;
  std::uint64_t map_bytes = 0;
  std::vector<std::uint8_t> fractions;  ///< count of each value, when counted
  std::uint64_t open_bits = 0;          ///< that the counts leave
};

void count_residuals(Residuals& residuals) {
  std::int32_t least = INT32_MAX;
  std::int32_t most = INT32_MIN;
  for (const std::int32_t v : residuals.values) {
    if (v == predict::kNoResidual) continue;
    least = std::min(least, v >> 1);
    most = std::max(most, v >> 1);
  }
  if (least > most) return;
  residuals.least = least;
  residuals.counts.assign(static_cast<std::size_t>(most - least + 1), 0);
  for (const std::int32_t v : residuals.values) {
    if (v != predict::kNoResidual) ++residuals.counts[static_cast<std::size_t>((v >> 1) - least)];
  }
}

/// A window of V residuals: the first, and how many elements lie outside.
struct Window {
  std::int32_t first;
  std::uint64_t outside;
};

/// The window with most weight, the highest of equals: the largest values of small tensors are more
/// alike than their smallest, so that one prebuilt table fits many.
Window best_window(const Residuals& residuals, unsigned size) {
  const std::vector<std::uint32_t>& counts = residuals.counts;
  std::uint64_t inside = 0;
  for (std::size_t i = 0; i < counts.size() && i < size; ++i) inside += counts[i];
  std::uint64_t most = inside;
  std::int64_t at = std::min<std::int64_t>(std::ssize(counts) - size, 0);
  for (std::size_t i = size; i < counts.size(); ++i) {
    inside += counts[i];
    inside -= counts[i - size];
    if (inside >= most) {
      most = inside;
      at = static_cast<std::int64_t>(i - size + 1);
    }
  }
  return {residuals.least + static_cast<std::int32_t>(at), residuals.coded - most};
}

/// The smallest window whose next residual would not pay for its place in the table.
unsigned wide_window(const Residuals& residuals, std::uint64_t escape_bits, unsigned sign_factor) {
  unsigned size = 1;
  Window window = best_window(residuals, size);
  while (size < kWideWindow) {
    const unsigned step = size + 4 <= kWideWindow ? 4 : kWideWindow - size;
    const Window wider = best_window(residuals, size + step);
    if ((window.outside - wider.outside) * escape_bits <= std::uint64_t{4} * step * sign_factor)
      break;
    size += step;
    window = wider;
  }
  return size;
}

/// From the sample to the tensor.
struct Extent {
  std::uint64_t sampled;
  std::uint64_t elements;
  std::uint64_t whole(std::uint64_t bits) const noexcept {
    return elements / sampled * bits + elements % sampled * bits / sampled;
  }
};

/// Counts single symbols and joint ones of neighbours.
struct SymbolCounts {
  std::vector<std::uint32_t> single = std::vector<std::uint32_t>(256, 0);
  std::vector<std::uint32_t> joint = std::vector<std::uint32_t>(256, 0);
  unsigned previous = 0;
  bool odd = false;

  void add(unsigned symbol) {
    ++single[symbol];
    if (odd) ++joint[(previous | symbol << 4) & 255];
    previous = symbol;
    odd = !odd;
  }
  /// What the coder of the options would take, tables included.
  std::uint64_t bits(unsigned alphabet, const CompressOptions& options,
                     const Extent& extent) const {
    const std::uint64_t information =
        extent.whole(information_bits<std::uint32_t>(single)) + 12 * alphabet;
    if (options.coder == Coder::ans) return information;
    const std::uint64_t huffman = huffman_bits(alphabet, options.pairs, extent);
    // The automatic coder takes ans where it saves much; raw bits make its rule a little stricter.
    const bool ans = options.coder == Coder::automatic && information * 16 < huffman * 15;
    return ans ? information : huffman;
  }

 private:
  std::uint64_t huffman_bits(unsigned alphabet, bool pairs, const Extent& extent) const {
    const std::vector<std::uint64_t> weights(single.begin(), single.begin() + alphabet);
    const entropy::Values lengths = entropy::code_lengths(weights);
    std::uint64_t plain = 0;
    for (std::size_t s = 0; s < weights.size(); ++s) plain += weights[s] * lengths[s];
    plain = extent.whole(plain) + 4 * alphabet;
    if (!pairs || alphabet > 16) return plain;
    const std::uint64_t information = information_bits<std::uint32_t>(joint);
    return std::min(plain, extent.whole(information + information / 128) + kPairTableBits);
  }
};

/// Bits of the symbols, and of the counts if there are any, under a window.
std::uint64_t symbol_bits(const Residuals& residuals, const ScaledParameters& p, std::int32_t base,
                          const CompressOptions& options, const Extent& extent) {
  SymbolCounts symbols;
  SymbolCounts counts;
  SymbolCounts& second = p.joint ? symbols : counts;
  const unsigned flip_mask = p.sign_factor() - 1;
  for (std::size_t i = 0; i < residuals.values.size(); ++i) {
    const std::int32_t v = residuals.values[i];
    if (v == predict::kNoResidual) {
      if (!p.has_zero) continue;
      symbols.add(p.zero_symbol());
      if (p.joint) second.add(0);
      continue;
    }
    const auto t = static_cast<std::uint32_t>((v >> 1) - base);
    symbols.add(t < p.window ? (t << flip_mask) + (static_cast<unsigned>(v) & flip_mask)
                             : p.escape_symbol());
    if (p.counted) second.add(residuals.fractions[i]);
  }
  std::uint64_t bits = symbols.bits(p.joint ? kCountAlphabet : p.alphabet(), options, extent);
  if (p.counted && !p.joint) bits += counts.bits(kCountAlphabet, options, extent);
  return bits;
}

/// The count of every sampled element (0 for zeros), and the bits that they leave open.
template <typename Word>
void count_fractions(const ScaledParameters& p, FloatFormat format, const Word* words,
                     std::size_t n, Residuals& residuals) {
  const unsigned dropped = format.fraction_bits - p.kept;
  const Word mask = split::low_mask<Word>(p.rest_bits());
  const CountShape shape{p.rest_bits(), p.low_count};
  for (std::size_t i = 0; i < n; ++i) {
    const unsigned v =
        words[i] == 0 ? 0 : count_of(static_cast<Word>(words[i] >> dropped) & mask, shape);
    residuals.fractions.push_back(static_cast<std::uint8_t>(v));
    residuals.open_bits += words[i] == 0 ? 0 : open_bits(v, shape);
  }
}

template <typename Word>
Residuals collect(const TensorView& tensor, const Sample& sample, const Plan& plan) {
  Residuals residuals;
  residuals.values.resize(sample.elements);
  std::vector<Word> buffer;
  std::vector<std::uint8_t> mask;
  std::vector<std::uint8_t> flags;
  std::size_t at = 0;
  for (const Sample::Run& run : sample.runs) {
    const Word* words = load_words(tensor, run.first, run.n, buffer);
    const predict::ScaledRun scaled{
        float_format(tensor.dtype), &plan.header.scaled, &plan.grid, 0, run.first, run.n};
    predict::collect_residuals(scaled, words, residuals.values.data() + at);
    if (plan.header.scaled.counted)
      count_fractions(plan.header.scaled, float_format(tensor.dtype), words, run.n, residuals);
    const bool dead = has_dead(plan.grid);
    mask.resize(run.n);
    live_mask(plan.grid, plan.header.scaled, run.first, run.n, mask.data());
    std::size_t kept = at;
    for (std::size_t i = 0; i < run.n; ++i) {
      if (dead && mask[i] == 0) continue;
      const bool zero = words[i] == 0;
      residuals.zeros += zero;
      residuals.coded += !zero;
      flags.push_back(zero);
      if (plan.header.scaled.counted) residuals.fractions[kept] = residuals.fractions[at + i];
      residuals.values[kept++] = residuals.values[at + i];
    }
    at = kept;
    if (plan.header.scaled.counted) residuals.fractions.resize(at);
  }
  residuals.values.resize(at);
  if (plan.map_zeros && residuals.zeros > 0) {
    Bytes out;
    ByteWriter writer(out);
    entropy::write_flags(flags, writer);
    residuals.map_bytes = out.size();
  }
  return residuals;
}

}  // namespace

template <typename Word>
std::uint64_t estimate_scaled(const TensorView& tensor, const Sample& sample,
                              std::size_t side_bytes, const CompressOptions& options, Plan& plan) {
  ScaledParameters& p = plan.header.scaled;
  const FloatFormat format = float_format(tensor.dtype);
  Residuals residuals = collect<Word>(tensor, sample, plan);
  count_residuals(residuals);
  const std::uint64_t escape_bits = 8 * predict::escape_bytes(format, p) + 6;
  const bool plain = p.sign_mode == SignMode::raw && p.step_log2 == 0;
  const bool small = plan.header.elements < kSmallElements || options.tables == Tables::fixed;
  // ans without pairs is as fast for more symbols, and an escape costs it a byte as well.
  const bool alone = options.coder == Coder::ans && !options.pairs;
  const bool prebuilt = (plain && !alone) || (small && p.step_log2 == 0);
  p.window = prebuilt ? kPlainWindow : wide_window(residuals, escape_bits, p.sign_factor());
  const Window window = best_window(residuals, p.window);
  plan.base = window.first;
  const Extent extent{sample.elements, plan.header.elements};
  const std::uint64_t symbols = symbol_bits(residuals, p, plan.base, options, extent);
  std::uint64_t bits = window.outside * (escape_bits - 6);
  bits += 8 * residuals.map_bytes;
  if (p.counted) {
    bits += residuals.open_bits + (p.sign_mode == SignMode::raw ? residuals.coded : 0);
  } else {
    bits += residuals.coded * p.record_bits();
  }
  return symbols + extent.whole(bits) + 8 * side_bytes;
}

template std::uint64_t estimate_scaled<std::uint16_t>(const TensorView&, const Sample&, std::size_t,
                                                      const CompressOptions&, Plan&);
template std::uint64_t estimate_scaled<std::uint32_t>(const TensorView&, const Sample&, std::size_t,
                                                      const CompressOptions&, Plan&);
template std::uint64_t estimate_scaled<std::uint64_t>(const TensorView&, const Sample&, std::size_t,
                                                      const CompressOptions&, Plan&);

}  // namespace gradwire::lossless
