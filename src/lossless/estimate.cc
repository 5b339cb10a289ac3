#include "lossless/estimate.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/counted.h"
#include "lossless/information.h"
#include "lossless/side_info.h"
#include "stages/entropy/code_lengths.h"
#include "stages/entropy/integer_array.h"
#include "stages/predict/residuals.h"
#include "stages/split/words.h"

namespace gradwire::lossless {

/// Residuals of the sample, both flips together, and what its zeros cost.
struct ResidualCounts {
  std::vector<std::uint32_t> places;  ///< by place (predict::residual_half)
  std::vector<std::uint32_t> counts;  ///< by d - least
  std::int32_t half = 0;
  std::int32_t least = 0;      ///< smallest d
  std::uint64_t coded = 0;     ///< elements that are no zero
  std::uint64_t map_bits = 0;  ///< of a flag map of the zeros
};

/// From the sample to the tensor.
struct Extent {
  std::uint64_t sampled;
  std::uint64_t elements;
  std::uint64_t whole(std::uint64_t bits) const noexcept {
    return elements / sampled * bits + elements % sampled * bits / sampled;
  }
};

namespace {

constexpr unsigned kPlainWindow = 14;  ///< with zero and escape: 16 symbols, the fastest code
constexpr unsigned kWideWindow = 62;
constexpr std::uint64_t kSmallElements = 8192;  ///< below, the window of prebuilt tables
constexpr std::uint64_t kPairTableBits = 1100;

/// Places in a histogram; equal neighbours would wait for each other in a single one.
template <typename Word>
std::vector<std::uint32_t> count_places(const std::vector<Word>& places, std::size_t size) {
  std::vector<std::uint32_t> even(size, 0);
  std::vector<std::uint32_t> odd(size, 0);
  std::size_t i = 0;
  for (; i + 2 <= places.size(); i += 2) {
    ++even[places[i]];
    ++odd[places[i + 1]];
  }
  if (i < places.size()) ++even[places[i]];
  std::transform(even.begin(), even.end(), odd.begin(), even.begin(), std::plus<>());
  return even;
}

void join_flips(ResidualCounts& residuals) {
  const std::vector<std::uint32_t>& places = residuals.places;
  const auto some = [](std::uint32_t count) { return count > 0; };
  const auto end = places.end() - 1;  // the last place is that of zeros
  const auto first = std::find_if(places.begin(), end, some) - places.begin();
  const auto last =
      places.size() - 2 -
      static_cast<std::size_t>(std::find_if(places.rbegin() + 1, places.rend(), some) -
                               places.rbegin() - 1);
  residuals.coded = std::accumulate(places.begin(), end, std::uint64_t{0});
  if (residuals.coded == 0) return;
  residuals.least = static_cast<std::int32_t>(first >> 1) - residuals.half;
  for (auto k = static_cast<std::size_t>(first >> 1); k <= last >> 1; ++k)
    residuals.counts.push_back(places[2 * k] + places[2 * k + 1]);
}

/// A window of V residuals: the first, and how many elements lie outside.
struct Window {
  std::int32_t first;
  std::uint64_t outside;
};

/// The window with most weight, the highest of equals: the largest values of small tensors are more
/// alike than their smallest, so that one prebuilt table fits many.
Window best_window(const ResidualCounts& residuals, unsigned size) {
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
unsigned wide_window(const ResidualCounts& residuals, std::uint64_t escape_bits,
                     unsigned sign_factor) {
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

std::vector<std::uint64_t> wide(std::span<const std::uint32_t> counts) {
  return {counts.begin(), counts.end()};
}

std::uint64_t huffman_payload(std::span<const std::uint32_t> counts) {
  const std::vector<std::uint64_t> weights = wide(counts);
  const entropy::Values lengths = entropy::quick_code_lengths(weights);
  std::uint64_t bits = 0;
  for (std::size_t s = 0; s < weights.size(); ++s) bits += weights[s] * lengths[s];
  return bits;
}

/// Counts of a sequence's symbols, and of its pairs where a table may pair them.
struct SequenceCounts {
  std::span<const std::uint32_t> single;
  std::span<const std::uint32_t> pairs;

  /// What the coder of the options would take, tables included.
  std::uint64_t bits(Coder coder, const Extent& extent) const {
    const std::uint64_t alphabet = single.size();
    const std::uint64_t information = extent.whole(information_bits(single)) + 12 * alphabet;
    if (coder == Coder::ans) return information;
    const std::uint64_t huffman = huffman_bits(information - 12 * alphabet, extent);
    // The automatic coder takes ans where it saves much; raw bits make its rule a little stricter.
    const bool ans = coder == Coder::automatic && information * 16 < huffman * 15;
    return ans ? information : huffman;
  }

 private:
  std::uint64_t huffman_bits(std::uint64_t information, const Extent& extent) const {
    const std::uint64_t table = 4 * single.size();
    std::uint64_t joint = UINT64_MAX;
    if (!pairs.empty()) {
      const std::uint64_t bits = information_bits(pairs);
      joint = extent.whole(bits + bits / 128) + kPairTableBits;
      if (joint <= information + table) return joint;  // no code is below its information
    }
    return std::min(joint, extent.whole(huffman_payload(single)) + table);
  }
};

/// Symbols of all places under a window, in the order of the alphabet.
std::vector<std::uint32_t> count_symbols(const ResidualCounts& residuals, const ScaledParameters& p,
                                         std::int32_t base) {
  std::vector<std::uint32_t> counts(p.alphabet(), 0);
  const unsigned factor = p.sign_factor();
  std::uint64_t inside = 0;
  for (unsigned t = 0; t < p.window; ++t) {
    const std::int64_t at = std::int64_t{base} + t + residuals.half;
    if (at < 0 || at >= 2 * residuals.half) continue;
    for (unsigned flip = 0; flip < factor; ++flip) {
      counts[t * factor + flip] = residuals.places[static_cast<std::size_t>(2 * at) + flip];
      inside += counts[t * factor + flip];
    }
  }
  if (p.has_zero) counts[p.zero_symbol()] = residuals.places.back();
  counts[p.escape_symbol()] = static_cast<std::uint32_t>(residuals.coded - inside);
  return counts;
}

std::vector<std::uint32_t> count_pairs(std::span<const std::uint8_t> symbols) {
  std::vector<std::uint32_t> pairs(256, 0);
  for (std::size_t i = 0; i + 2 <= symbols.size(); i += 2)
    ++pairs[static_cast<std::uint8_t>(symbols[i] | symbols[i + 1] << 4)];
  return pairs;
}

std::vector<std::uint32_t> count_values(std::span<const std::uint8_t> symbols, unsigned alphabet) {
  std::vector<std::uint32_t> counts(alphabet, 0);
  for (const std::uint8_t symbol : symbols) ++counts[symbol];
  return counts;
}

}  // namespace

/// The count of every sampled element (0 for zeros), and the bits that they leave open.
template <typename Word>
void Estimator<Word>::count_fractions(const ScaledParameters& p, const Word* words, std::size_t n,
                                      std::uint8_t* counts) {
  const unsigned dropped = float_format(dtype_).fraction_bits - p.kept;
  const Word mask = split::low_mask<Word>(p.rest_bits());
  const CountShape shape{p.rest_bits(), p.low_count};
  for (std::size_t i = 0; i < n; ++i) {
    const unsigned v =
        words[i] == 0 ? 0 : count_of(static_cast<Word>(words[i] >> dropped) & mask, shape);
    counts[i] = static_cast<std::uint8_t>(v);
    open_bits_ += words[i] == 0 ? 0 : open_bits(v, shape);
  }
}

/// Collects run k behind the `at` elements collected so far; elements of dead lines are left out.
template <typename Word>
std::size_t Estimator<Word>::collect_run(const Plan& plan, std::size_t k, const Word* words,
                                         std::size_t at) {
  const ScaledParameters& p = plan.header.scaled;
  const auto [first, n] = sample_.runs[k];
  const predict::ScaledRun run{float_format(dtype_), &p, &plan.grid, 0, first, n};
  predict::collect_residuals(run, words, places_.data() + at);
  if (p.counted) count_fractions(p, words, n, fractions_.data() + at);
  if (!has_dead(plan.grid)) return n;
  mask_.resize(n);
  live_mask(plan.grid, p, first, n, mask_.data());
  std::size_t live = 0;
  for (std::size_t i = 0; i < n; ++i) {
    places_[at + live] = places_[at + i];
    fractions_[at + live] = fractions_[at + i];
    live += mask_[i];
  }
  return live;
}

template <typename Word>
ResidualCounts Estimator<Word>::collect(const Plan& plan) {
  places_.resize(sample_.words.size());
  fractions_.resize(sample_.words.size());
  open_bits_ = 0;
  std::size_t at = 0;
  const Word* words = sample_.words.data();
  for (std::size_t k = 0; k < sample_.runs.size(); ++k) {
    at += collect_run(plan, k, words, at);
    words += sample_.runs[k].n;
  }
  places_.resize(at);
  fractions_.resize(at);
  ResidualCounts residuals;
  residuals.half = predict::residual_half(float_format(dtype_), plan.header.scaled);
  const auto zero = static_cast<std::size_t>(4 * residuals.half);
  residuals.places = count_places(places_, zero + 1);
  join_flips(residuals);
  if (plan.map_zeros && residuals.places.back() > 0) {
    std::vector<std::uint8_t> flags(at);
    for (std::size_t i = 0; i < at; ++i) flags[i] = places_[i] == zero;
    Bytes out;
    ByteWriter writer(out);
    entropy::write_flags(flags, writer);
    residuals.map_bits = 8 * out.size();
  }
  return residuals;
}

/// The sequence that pairs are taken from: symbols of the plan's coded elements, with joint each
/// followed by its count.
template <typename Word>
std::span<const std::uint8_t> Estimator<Word>::neighbours(const Plan& plan,
                                                          const ResidualCounts& residuals) {
  const std::int32_t half = residuals.half;
  const std::uint32_t zeros = residuals.places.back();
  const ScaledParameters& p = plan.header.scaled;
  const auto zero = static_cast<std::size_t>(4 * half);
  std::vector<std::uint8_t> symbol_of(zero + 1, static_cast<std::uint8_t>(p.escape_symbol()));
  for (unsigned s = 0; s < p.zero_symbol(); ++s) {
    const std::int64_t at = 2 * (std::int64_t{plan.base} + half) + s * (3 - p.sign_factor());
    if (at >= 0 && at < 4 * half)
      symbol_of[static_cast<std::size_t>(at)] = static_cast<std::uint8_t>(s);
  }
  symbol_of[zero] = static_cast<std::uint8_t>(p.zero_symbol());
  symbols_.resize(2 * places_.size() + 2);
  std::size_t n = 0;
  if (!p.joint && (p.has_zero || zeros == 0)) {
    for (; n < places_.size(); ++n) symbols_[n] = symbol_of[static_cast<std::size_t>(places_[n])];
    return {symbols_.data(), n};
  }
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const auto place = static_cast<std::size_t>(places_[i]);
    symbols_[n] = symbol_of[place];
    symbols_[n + 1] = fractions_[i];
    const bool coded = p.has_zero || place != zero;
    n += coded ? (p.joint ? 2u : 1u) : 0u;
  }
  return {symbols_.data(), n};
}

/// Bits of the symbols, and of the counts if there are any.
template <typename Word>
std::uint64_t Estimator<Word>::symbol_bits(const Plan& plan, const ResidualCounts& residuals,
                                           const Extent& extent) {
  const ScaledParameters& p = plan.header.scaled;
  const bool pairs = options_.pairs && options_.coder != Coder::ans;
  if (p.joint) {
    const auto sequence = neighbours(plan, residuals);
    return SequenceCounts{count_values(sequence, kCountAlphabet), count_pairs(sequence)}.bits(
        options_.coder, extent);
  }
  const std::vector<std::uint32_t> single = count_symbols(residuals, p, plan.base);
  std::vector<std::uint32_t> joint;
  if (pairs && p.alphabet() <= 16) joint = count_pairs(neighbours(plan, residuals));
  std::uint64_t bits = SequenceCounts{single, joint}.bits(options_.coder, extent);
  if (!p.counted) return bits;
  std::vector<std::uint8_t> counts;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (static_cast<std::int64_t>(places_[i]) != 4 * residuals.half)
      counts.push_back(fractions_[i]);
  }
  return bits +
         SequenceCounts{count_values(counts, kCountAlphabet), {}}.bits(options_.coder, extent);
}

template <typename Word>
std::uint64_t Estimator<Word>::operator()(Plan& plan, std::size_t side_bytes) {
  ScaledParameters& p = plan.header.scaled;
  const ResidualCounts residuals = collect(plan);
  const std::uint64_t escape_bits = 8 * predict::escape_bytes(float_format(dtype_), p);
  const bool plain = p.sign_mode == SignMode::raw && p.step_log2 == 0;
  const bool small = plan.header.elements < kSmallElements || options_.tables == Tables::fixed;
  // ans without pairs is as fast for more symbols, and an escape costs it a byte as well.
  const bool alone = options_.coder == Coder::ans && !options_.pairs;
  const bool prebuilt = (plain && !alone) || (small && p.step_log2 == 0);
  p.window = prebuilt ? kPlainWindow : wide_window(residuals, escape_bits + 6, p.sign_factor());
  const Window window = best_window(residuals, p.window);
  plan.base = window.first;
  std::uint64_t bits = window.outside * escape_bits + residuals.map_bits;
  if (p.counted) {
    bits += open_bits_ + (p.sign_mode == SignMode::raw ? residuals.coded : 0);
  } else {
    bits += residuals.coded * p.record_bits();
  }
  const Extent extent{sample_.words.size(), plan.header.elements};
  return symbol_bits(plan, residuals, extent) + extent.whole(bits) + 8 * side_bytes;
}

template class Estimator<std::uint16_t>;
template class Estimator<std::uint32_t>;
template class Estimator<std::uint64_t>;

}  // namespace gradwire::lossless
