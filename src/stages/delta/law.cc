#include "stages/delta/law.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace gradwire::delta {
namespace {

/// Expected bits of `flags` flags of which `rare` are told, if they are spread evenly. The chance
/// that a run goes on through 2^b flags is found by squaring, so it is the same on every machine.
double run_cost(double flags, double rare, unsigned low_bits) {
  if (rare <= 0) return flags / static_cast<double>(std::uint64_t{1} << low_bits);
  double on = 1 - rare / (flags + 1);
  for (unsigned i = 0; i < low_bits; ++i) on *= on;
  return rare * (1 + low_bits + on / (1 - on));
}

/// Of a sample at least one flag of each value is expected elsewhere.
RunCode fit_run(std::uint64_t flags, std::uint64_t set, bool is_sample) {
  RunCode code{0, set <= flags - set};
  const auto all = static_cast<double>(flags);
  const std::uint64_t seen = code.rare ? set : flags - set;
  const auto rare = static_cast<double>(is_sample ? std::max<std::uint64_t>(seen, 1) : seen);
  double best = run_cost(all, rare, 0);
  while (code.low_bits < kMaxLowBits) {
    const double next = run_cost(all, rare, code.low_bits + 1);
    if (next >= best) break;
    best = next;
    ++code.low_bits;
  }
  return code;
}

double run_cost(const RunCode& code, std::uint64_t flags, std::uint64_t set) {
  return run_cost(static_cast<double>(flags), static_cast<double>(code.rare ? set : flags - set),
                  code.low_bits);
}

/// Flags that the question j is asked of.
std::uint64_t asked(const LawCounts& counts, unsigned j) {
  return j == 0 ? counts.elements : counts.above[j - 1];
}

/// The sum of what is left of the changes past question `depth`.
std::uint64_t rest_sum(const LawCounts& counts, unsigned depth) {
  std::uint64_t told = 0;
  for (unsigned j = 0; j <= depth; ++j) told += counts.above[j];
  return counts.sum - std::min(counts.sum, told);
}

/// Bits of the rests, taken for geometric.
double rest_cost(std::uint64_t count, std::uint64_t sum, unsigned bits) {
  return static_cast<double>(count) * (1 + bits) +
         static_cast<double>(sum) / static_cast<double>(std::uint64_t{1} << bits);
}

unsigned fit_rest(std::uint64_t count, std::uint64_t sum) {
  if (count == 0) return 0;
  const auto about = static_cast<unsigned>(std::bit_width(sum / count));
  unsigned best = about;
  for (unsigned bits = about < 2 ? 0 : about - 2; bits < about; ++bits) {
    if (rest_cost(count, sum, bits) < rest_cost(count, sum, best)) best = bits;
  }
  return std::min(best, kMaxRestBits);
}

Law law_of_depth(const LawCounts& counts, unsigned depth, bool is_sample) {
  Law law;
  law.changes = true;
  law.depth = std::min(depth, kMaxDepth);
  for (unsigned j = 0; j <= law.depth; ++j)
    law.codes[j] = fit_run(asked(counts, j), counts.above[j], is_sample);
  if (is_sample || counts.most > depth + 1)
    law.rest_bits = fit_rest(counts.above[depth], rest_sum(counts, depth));
  return law;
}

}  // namespace

void LawCounts::add(const LawCounts& other) noexcept {
  elements += other.elements;
  for (std::size_t j = 0; j < above.size(); ++j) above[j] += other.above[j];
  sum += other.sum;
  most = std::max(most, other.most);
}

double cost(const Law& law, const LawCounts& counts) {
  if (!law.changes) return 1;
  double bits = law_bits(law.depth);
  for (unsigned j = 0; j <= law.depth; ++j)
    bits += run_cost(law.codes[j], asked(counts, j), counts.above[j]);
  bits += static_cast<double>(counts.above[0]);
  if (law.rest_bits != kNoRest)
    bits += rest_cost(counts.above[law.depth], rest_sum(counts, law.depth), law.rest_bits);
  return bits;
}

Law fit_law(const LawCounts& counts, bool is_sample) {
  if (counts.elements == 0 || (counts.above[0] == 0 && !is_sample)) return {};
  Law best = law_of_depth(counts, 0, is_sample);
  double least = cost(best, counts);
  for (unsigned depth = 1; depth <= kMaxDepth && counts.above[depth] > 0; ++depth) {
    const Law law = law_of_depth(counts, depth, is_sample);
    if (const double bits = cost(law, counts); bits < least) {
      least = bits;
      best = law;
    }
  }
  return best;
}

LawFit fit_laws(std::span<const LawCounts> fine, bool is_sample) {
  LawFit best;
  for (unsigned step = 0; step == 0 || fine.size() > std::size_t{1} << (step - 1); ++step) {
    LawFit fit{step, {}, 0};
    for (std::size_t first = 0; first < fine.size(); first += std::size_t{1} << step) {
      LawCounts counts;
      for (const LawCounts& one :
           fine.subspan(first).first(std::min(std::size_t{1} << step, fine.size() - first)))
        counts.add(one);
      fit.laws.push_back(fit_law(counts, is_sample));
      fit.bits += cost(fit.laws.back(), counts);
    }
    if (step == 0 || fit.bits < best.bits) best = std::move(fit);
  }
  return best;
}

void write_law(const Law& law, BitWriter& out) {
  out.put(law.changes, 1);
  if (!law.changes) return;
  out.put(law.depth, 4);
  for (unsigned j = 0; j <= law.depth; ++j) {
    out.put(law.codes[j].low_bits, 5);
    out.put(law.codes[j].rare, 1);
  }
  out.put(law.rest_bits, 6);
}

Law read_law(BitReader& in) {
  Law law;
  law.changes = in.get(1);
  if (!law.changes) return law;
  law.depth = static_cast<unsigned>(in.get(4));
  for (unsigned j = 0; j <= law.depth; ++j) {
    law.codes[j].low_bits = static_cast<unsigned>(in.get(5));
    law.codes[j].rare = in.get(1);
  }
  law.rest_bits = static_cast<unsigned>(in.get(6));
  return law;
}

}  // namespace gradwire::delta
