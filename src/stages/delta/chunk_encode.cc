#include <algorithm>
#include <bit>
#include <numeric>

#include "base/match.h"
#include "stages/delta/chunk.h"
#include "stages/delta/rest.h"
#include "stages/delta/runs.h"

namespace gradwire::delta {
namespace {

constexpr unsigned kSignsAtOnce = 32;

/// A bit for each of a block's elements that differs.
template <typename Word>
std::uint64_t changed_mask(const Word* reference, const Word* result, std::size_t n) noexcept {
  std::uint8_t differs[kBlock] = {};
  for (std::size_t i = 0; i < n; ++i) differs[i] = reference[i] != result[i];
  return match_mask(differs, 1);
}

template <typename Word>
void write_signs(std::span<const Step<Word>> steps, BitWriter& out) noexcept {
  while (!steps.empty()) {
    const auto n = static_cast<unsigned>(std::min<std::size_t>(steps.size(), kSignsAtOnce));
    std::uint64_t bits = 0;
    for (unsigned i = 0; i < n; ++i) bits |= std::uint64_t{steps[i].negative} << i;
    out.put(bits, n);
    steps = steps.subspan(n);
  }
}

}  // namespace

void Asked::start(std::size_t count) {
  changes.resize(count);
  std::iota(changes.begin(), changes.end(), 0u);
}

void Asked::go_on() {
  for (std::size_t k = 0; k < yes.size(); ++k) changes[k] = changes[yes[k]];
  changes.resize(yes.size());
}

template <typename Word>
bool ChunkEncoder<Word>::compare(std::span<const Word> reference, std::span<const Word> result,
                                 const Rules& rules) {
  map_.build(reference, rules.classes);
  changes_.resize(rules.classes.classes);
  for (Changes<Word>& changes : changes_) {
    changes.ranks.clear();
    changes.steps.clear();
  }
  std::vector<std::uint32_t> passed(changes_.size(), 0);  // elements of a class before the block
  bool any = false;
  for (std::size_t b = 0; b < map_.blocks(); ++b) {
    const std::size_t first = b * kBlock;
    const std::size_t n = std::min(kBlock, reference.size() - first);
    std::uint64_t changed = changed_mask(&reference[first], &result[first], n);
    any |= changed != 0;
    for (; changed != 0; changed &= changed - 1) {
      const auto bit = static_cast<unsigned>(std::countr_zero(changed));
      const std::size_t i = first + bit;
      const unsigned c = map_.class_of(i);
      const std::uint64_t before = map_.mask(b, c) & ((std::uint64_t{1} << bit) - 1);
      changes_[c].ranks.push_back(passed[c] + static_cast<unsigned>(std::popcount(before)));
      changes_[c].steps.push_back(step_between(ordered(reference[i], rules.is_signed_magnitude),
                                               ordered(result[i], rules.is_signed_magnitude)));
    }
    for (unsigned c = 0; c < passed.size(); ++c) passed[c] += map_.counts(b)[c];
  }
  return any;
}

template <typename Word>
void ChunkEncoder<Word>::count(std::span<LawCounts> counts) const {
  for (unsigned c = 0; c < counts.size(); ++c) counts[c].add(counts_of(c));
}

template <typename Word>
LawCounts ChunkEncoder<Word>::counts_of(unsigned c) const {
  LawCounts counts;
  counts.elements = map_.total(c);
  for (const Step<Word>& step : changes_[c].steps) counts.note(step.size);
  return counts;
}

template <typename Word>
std::uint64_t ChunkEncoder<Word>::bound(const Law& law, unsigned c) const {
  const LawCounts counts = counts_of(c);
  std::uint64_t bits = 0, asked = counts.elements;
  for (unsigned j = 0; j <= law.depth; ++j) {
    const std::uint64_t set = counts.above[j];
    const RunCode& code = law.codes[j];
    bits += (code.rare ? set : asked - set) * (1 + code.low_bits) + (asked >> code.low_bits) + 1;
    asked = set;
  }
  return bits + counts.above[0] + asked * rest_bound(8 * sizeof(Word));
}

template <typename Word>
void ChunkEncoder<Word>::encode_class(const Law& law, unsigned c, BitWriter& out) {
  const Changes<Word>& changes = changes_[c];
  write_runs(changes.ranks, map_.total(c), law.codes[0], out);
  asked_.start(changes.ranks.size());
  for (unsigned j = 1; j <= law.depth; ++j) {
    const auto flags = static_cast<std::uint32_t>(asked_.changes.size());
    asked_.yes.clear();
    for (std::uint32_t k = 0; k < flags; ++k)
      if (changes.steps[asked_.changes[k]].size > j) asked_.yes.push_back(k);
    write_runs(asked_.yes, flags, law.codes[j], out);
    asked_.go_on();
  }
  write_signs(std::span<const Step<Word>>(changes.steps), out);
  if (law.rest_bits == kNoRest) return;
  for (const std::uint32_t k : asked_.changes)
    write_rest(changes.steps[k].size - law.depth - 1, law.rest_bits, 8 * sizeof(Word), out);
}

template <typename Word>
void ChunkEncoder<Word>::encode(const Rules& rules, Bytes& out) {
  std::uint64_t bits = 0;
  for (unsigned c = 0; c < rules.laws.size(); ++c)
    if (rules.laws[c].changes) bits += bound(rules.laws[c], c);
  stream_.resize(static_cast<std::size_t>(bits / 8) + 1 + sizeof(std::uint64_t));
  BitWriter writer(stream_.data());
  for (unsigned c = 0; c < rules.laws.size(); ++c)
    if (rules.laws[c].changes && map_.total(c) > 0) encode_class(rules.laws[c], c, writer);
  const auto size = static_cast<std::ptrdiff_t>(writer.finish());
  out.insert(out.end(), stream_.begin(), stream_.begin() + size);
}

template class ChunkEncoder<std::uint8_t>;
template class ChunkEncoder<std::uint16_t>;
template class ChunkEncoder<std::uint32_t>;
template class ChunkEncoder<std::uint64_t>;

}  // namespace gradwire::delta
