#include "stages/delta/classes.h"

#include <algorithm>
#include <bit>

#include "base/bytes.h"
#include "base/clones.h"
#include "base/float_format.h"

namespace gradwire::delta {
namespace {

template <typename Word>
void classify(const Word* reference, std::size_t n, const ClassRule& rule, std::uint8_t* classes) {
  const auto low = static_cast<int>(rule.low);
  const int last = static_cast<int>(rule.classes) - 1;
  for (std::size_t i = 0; i < n; ++i) {
    const int key = static_cast<int>(reference[i] >> rule.shift & rule.mask);
    classes[i] = static_cast<std::uint8_t>(std::min(std::max(key - low, 0) >> rule.step, last));
  }
}

using Counts = std::array<std::uint8_t, kMaxClasses>;

/// One of each of two classes, c | d << 4, as two words of counters.
struct PairCounts {
  std::uint64_t first = 0, second = 0;
};

constexpr std::array<PairCounts, 256> kPairs = [] {
  std::array<PairCounts, 256> pairs;
  for (unsigned pair = 0; pair < 256; ++pair) {
    for (const unsigned c : {pair & 15, pair >> 4}) {
      std::uint64_t& word = c < 8 ? pairs[pair].first : pairs[pair].second;
      word += std::uint64_t{1} << 8 * (c & 7);
    }
  }
  return pairs;
}();

/// Pairs of neighbours are looked up, so the number of classes does not matter.
Counts count_block(const std::uint8_t* classes) noexcept {
  PairCounts sum;
  for (std::size_t i = 0; i < kBlock; i += 8) {
    const auto bytes = load<std::uint64_t>(classes + i);
    const std::uint64_t joined = bytes | bytes >> 4;
    for (unsigned k = 0; k < 64; k += 16) {
      const PairCounts& pair = kPairs[joined >> k & 255];
      sum.first += pair.first;
      sum.second += pair.second;
    }
  }
  return std::bit_cast<Counts>(sum);
}

GRADWIRE_CLONES void classify16(const std::uint16_t* reference, std::size_t n,
                                const ClassRule& rule, std::uint8_t* classes) {
  classify(reference, n, rule, classes);
}

}  // namespace

ClassRule class_rule(DType dtype) noexcept {
  if (dtype == DType::f8_e4m3) return {3, 15};
  if (dtype == DType::f8_e5m2) return {2, 31};
  if (!is_float(dtype)) return {};
  const FloatFormat format = float_format(dtype);
  return {format.fraction_bits, (1u << format.exponent_bits) - 1};
}

ClassRule finest_classes(ClassRule rule, unsigned least_key, unsigned most_key) noexcept {
  rule.low = std::max(least_key, most_key < kMaxClasses ? 0 : most_key - (kMaxClasses - 1));
  rule.step = 0;
  rule.classes = most_key - rule.low + 1;
  return rule;
}

template <typename Word>
void ClassMap<Word>::build(std::span<const Word> reference, const ClassRule& rule) {
  const std::size_t n = reference.size();
  counts_.resize((n + kBlock - 1) / kBlock);
  classes_.resize(counts_.size() * kBlock);
  std::fill(classes_.begin() + static_cast<std::ptrdiff_t>(n), classes_.end(), 0);
  if constexpr (sizeof(Word) == 2) {
    classify16(reference.data(), n, rule, classes_.data());
  } else {
    classify(reference.data(), n, rule, classes_.data());
  }
  totals_ = {};
  for (std::size_t b = 0; b < counts_.size(); ++b) {
    counts_[b] = count_block(classes_.data() + b * kBlock);
    if (b + 1 == counts_.size())
      counts_[b][0] = static_cast<std::uint8_t>(counts_[b][0] - (classes_.size() - n));
    for (unsigned c = 0; c < kMaxClasses; ++c) totals_[c] += counts_[b][c];
  }
}

template <typename Word>
std::uint64_t ClassMap<Word>::mask(std::size_t block, unsigned c) const noexcept {
  return match_mask(classes_.data() + block * kBlock, static_cast<std::uint8_t>(c));
}

template class ClassMap<std::uint8_t>;
template class ClassMap<std::uint16_t>;
template class ClassMap<std::uint32_t>;
template class ClassMap<std::uint64_t>;

}  // namespace gradwire::delta
