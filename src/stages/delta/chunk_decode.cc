#include <bit>

#include "stages/delta/chunk.h"
#include "stages/delta/rest.h"
#include "stages/delta/runs.h"

namespace gradwire::delta {

template <typename Word>
bool ChunkDecoder<Word>::read_class(const Law& law, BitReader& in, std::uint32_t elements,
                                    Changes<Word>& changes) {
  if (!read_runs(in, elements, law.codes[0], changes.ranks)) return false;
  changes.steps.assign(changes.ranks.size(), {1, false});
  asked_.start(changes.ranks.size());
  for (unsigned j = 1; j <= law.depth; ++j) {
    const auto flags = static_cast<std::uint32_t>(asked_.changes.size());
    if (!read_runs(in, flags, law.codes[j], asked_.yes)) return false;
    asked_.go_on();
    for (const std::uint32_t k : asked_.changes) changes.steps[k].size = static_cast<Word>(j + 1);
  }
  for (Step<Word>& step : changes.steps) step.negative = in.get(1);
  if (law.rest_bits == kNoRest) return !in.overrun();
  for (const std::uint32_t k : asked_.changes) {
    const std::uint64_t size = law.depth + 1 + read_rest(in, law.rest_bits, 8 * sizeof(Word));
    Step<Word>& step = changes.steps[k];
    step.size = static_cast<Word>(size);
    if (step.size != size || !is_step(step)) return false;
  }
  return !in.overrun();
}

template <typename Word>
void ChunkDecoder<Word>::place(unsigned c, bool is_signed_magnitude,
                               std::span<Word> elements) const {
  const Changes<Word>& changes = changes_[c];
  std::size_t block = 0;
  std::uint32_t passed = 0;              // elements of the class before the block
  std::uint64_t mask = map_.mask(0, c);  // of those in it, from the one of rank `first` on
  std::uint32_t first = 0;
  for (std::size_t k = 0; k < changes.ranks.size(); ++k) {
    const std::uint32_t rank = changes.ranks[k];
    if (rank - passed >= map_.counts(block)[c]) {
      do passed += map_.counts(block++)[c];
      while (rank - passed >= map_.counts(block)[c]);
      mask = map_.mask(block, c);
      first = passed;
    }
    for (; first < rank; ++first) mask &= mask - 1;
    Word& element = elements[block * kBlock + static_cast<unsigned>(std::countr_zero(mask))];
    const Word from = ordered(element, is_signed_magnitude);
    element = ordered(step_from(from, changes.steps[k]), is_signed_magnitude);
  }
}

template <typename Word>
bool ChunkDecoder<Word>::apply(const Rules& rules, ByteSpan bits, std::span<Word> elements) {
  map_.build(elements, rules.classes);
  changes_.resize(rules.laws.size());
  BitReader in(bits);
  for (unsigned c = 0; c < rules.laws.size(); ++c) {
    changes_[c].ranks.clear();
    if (!rules.laws[c].changes || map_.total(c) == 0) continue;
    if (!read_class(rules.laws[c], in, map_.total(c), changes_[c])) return false;
  }
  if (!in.at_exact_end()) return false;
  for (unsigned c = 0; c < rules.laws.size(); ++c) {
    if (!changes_[c].ranks.empty()) place(c, rules.is_signed_magnitude, elements);
  }
  return true;
}

template class ChunkDecoder<std::uint8_t>;
template class ChunkDecoder<std::uint16_t>;
template class ChunkDecoder<std::uint32_t>;
template class ChunkDecoder<std::uint64_t>;

}  // namespace gradwire::delta
