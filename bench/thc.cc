// What does a step of THC cost a rank? The parts one by one, beside a copy of the values, for a
// rotation over everything and one over blocks of 1024.

#include "lossy/thc/thc.h"

#include <cstring>
#include <vector>

#include <benchmark/benchmark.h>

#include "lossy/thc/lanes.h"
#include "lossy/transform/hadamard.h"

namespace {

using namespace gradwire;
using namespace gradwire::lossy;

constexpr std::size_t kValues = std::size_t{1} << 20;
constexpr std::uint32_t kRanks = 8;

/// Everything that a step has at its end, so that a part can be run again.
struct Step {
  explicit Step(std::size_t largest)
      : blocks(kValues, largest),
        values(blocks.padded()),
        indices(values.size()),
        entries(values.size()),
        lanes(lanes_for(quantiser.table().top, kRanks)),
        words(word_count(lanes, values.size())),
        sums(values.size()),
        decoded(values.size()) {
    const RandomKey key(1, 0);
    for (std::size_t i = 0; i < kValues; ++i)
      values[i] = random_unit(key, static_cast<std::uint32_t>(i)) - 0.5F;
    static_cast<void>(measure_norms(values, blocks, norms));
    rotate(values, blocks, 1);
    quantise();
    quantiser.to_entries(indices, entries);
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) quantiser.add_entries(indices, sums);
    pack_sums(sums, lanes, words);
  }
  void quantise() { quantiser.quantise(values, blocks, norms, {.seed = 2, .first = 0}, indices); }

  TableQuantiser quantiser{{}};
  PowerBlocks blocks;
  std::vector<float> values, norms;
  std::vector<std::uint8_t> indices, entries;
  Lanes lanes;
  std::vector<std::int32_t> words;
  std::vector<std::uint32_t> sums;
  std::vector<float> decoded;
};

template <typename Part>
void run(benchmark::State& state, const Part& part) {
  Step step(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    part(step);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kValues * sizeof(float)));
}

void copy(benchmark::State& state) {
  run(state, [](Step& step) {
    std::memcpy(step.decoded.data(), step.values.data(), kValues * sizeof(float));
    benchmark::DoNotOptimize(step.decoded.data());
  });
}
void norms(benchmark::State& state) {
  run(state, [](Step& step) {
    benchmark::DoNotOptimize(measure_norms(step.values, step.blocks, step.norms));
  });
}
void rotate(benchmark::State& state) {
  run(state, [](Step& step) { lossy::rotate(step.values, step.blocks, 1); });
}
void rotate_back(benchmark::State& state) {
  run(state, [](Step& step) { lossy::rotate_back(step.values, step.blocks, 1); });
}
void quantise(benchmark::State& state) {
  run(state, [](Step& step) { step.quantise(); });
}
void entries(benchmark::State& state) {
  run(state, [](Step& step) { step.quantiser.to_entries(step.indices, step.entries); });
}
void pack(benchmark::State& state) {
  run(state, [](Step& step) { pack_entries(step.entries, step.lanes, step.words); });
}
void unpack(benchmark::State& state) {
  Step packed(static_cast<std::size_t>(state.range(0)));
  run(state, [&](Step& step) { unpack_sums(packed.words, packed.lanes, step.sums); });
}
void decode(benchmark::State& state) {
  run(state, [](Step& step) {
    step.quantiser.decode(step.sums, kRanks, step.blocks, step.norms, step.decoded);
  });
}

void both_rotations(benchmark::internal::Benchmark* part) {
  part->Arg(1024)->Arg(1 << 23)->Unit(benchmark::kMicrosecond);
}

BENCHMARK(copy)->Apply(both_rotations);
BENCHMARK(norms)->Apply(both_rotations);
BENCHMARK(rotate)->Apply(both_rotations);
BENCHMARK(rotate_back)->Apply(both_rotations);
BENCHMARK(quantise)->Apply(both_rotations);
BENCHMARK(entries)->Apply(both_rotations);
BENCHMARK(pack)->Apply(both_rotations);
BENCHMARK(unpack)->Apply(both_rotations);
BENCHMARK(decode)->Apply(both_rotations);

}  // namespace
