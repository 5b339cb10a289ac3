// What does a step of a sum by sketch cost a rank, beside memcpy of the dense gradient? Ten million
// values, of which a share is not 0 on this rank, and four times that in the union of the ranks.
// With 0 cells the union's values are sent as they are: what the sketch has to be compared with.

#include "lossy/sketch/sketch.h"

#include <cstring>
#include <vector>

#include <benchmark/benchmark.h>

#include "base/counter_random.h"
#include "lossy/sketch/grid.h"

namespace {

using namespace gradwire::lossy;

constexpr std::size_t kValues = 10'000'000;

/// Floats of which one in `per` is not 0.
std::vector<float> sparse(std::uint32_t per, std::uint64_t seed) {
  const gradwire::RandomKey key(seed, 0);
  std::vector<float> values(kValues);
  for (std::size_t i = 0; i < kValues; ++i) {
    const std::uint32_t bits = gradwire::element_bits(key, static_cast<std::uint32_t>(i));
    if (bits % per == 0) values[i] = static_cast<float>(bits >> 8) * 0x1p-24F - 0.5F;
  }
  return values;
}

struct Step {
  SketchOptions options;
  std::vector<float> gradient, result = std::vector<float>(kValues);
  std::vector<std::uint8_t> own, all;
  std::vector<std::int32_t> integers = std::vector<std::int32_t>(kValues), payload;
  SketchScratch scratch;
  SketchPlan plan;
  IntegerGrid grid;
  std::uint32_t most = 0;

  Step(std::uint32_t per, double cells, std::size_t block_values)
      : options{.block_values = block_values, .cells = cells}, gradient(sparse(per, 0)) {
    own.resize(index_bytes(kValues, block_values));
    all.resize(own.size());
    most = std::min(value_limit(options, 4), kMostOnGrid);
    for (std::uint64_t rank = 1; rank < 4; ++rank) {
      to_integers(sparse(per, rank));
      for (std::size_t b = 0; b < all.size(); ++b)
        all[b] = static_cast<std::uint8_t>(all[b] | own[b]);
    }
    to_integers(gradient);
    for (std::size_t b = 0; b < all.size(); ++b)
      all[b] = static_cast<std::uint8_t>(all[b] | own[b]);
  }

  void to_integers(const std::vector<float>& values) {
    grid = grid_for(measure_magnitude(values), most).value();
    if (!to_grid(values, grid, integers)) std::abort();
    mark_index(integers, options.block_values, own);
  }
  void make_plan() { plan_sketch(all, kValues, options, scratch, plan); }
  void fill() {
    payload.resize(plan.payload_values());
    fill_payload(plan, integers, own, most, payload);
  }
  void restore() {
    restore_sums(plan, payload, integers);
    if (!from_grid(integers, grid, 4, result)) std::abort();
  }
};

void report(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kValues * sizeof(float)));
}

/// All that a rank does between two exchanges and after the last, except what a network does.
void whole(benchmark::State& state, std::uint32_t per, double cells, std::size_t block_values) {
  Step step(per, cells, block_values);
  for (auto _ : state) {
    step.to_integers(step.gradient);
    step.make_plan();
    step.fill();
    step.restore();
    benchmark::DoNotOptimize(step.result.data());
  }
  report(state);
  const SketchBits bits = bits_of(step.plan);
  state.counters["bits_per_value"] = static_cast<double>(bits.total()) / kValues;
  state.counters["index_bits_per_value"] = static_cast<double>(bits.index) / kValues;
  state.counters["payload_per_block"] = payload_per_block(step.plan);
}

void part(benchmark::State& state, void (*run)(Step&)) {
  Step step(100, 1.35, 1);
  step.make_plan();
  for (auto _ : state) {
    step.fill();  // restore_sums leaves nothing of a payload
    run(step);
  }
  report(state);
}

void memcpy_dense(benchmark::State& state) {
  const std::vector<float> from = sparse(100, 0);
  std::vector<float> to(kValues);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), kValues * sizeof(float));
    benchmark::DoNotOptimize(to.data());
  }
  report(state);
}

constexpr auto kUnit = benchmark::kMillisecond;
BENCHMARK(memcpy_dense)->Unit(kUnit);
BENCHMARK_CAPTURE(whole, one_percent, 100, 1.35, 1)->Unit(kUnit);
BENCHMARK_CAPTURE(whole, one_percent_no_cells, 100, 0, 1)->Unit(kUnit);
BENCHMARK_CAPTURE(whole, one_percent_blocks_of_16, 100, 1.35, 16)->Unit(kUnit);
BENCHMARK_CAPTURE(whole, union_of_one_percent, 400, 1.35, 1)->Unit(kUnit);
BENCHMARK_CAPTURE(whole, union_of_one_percent_no_cells, 400, 0, 1)->Unit(kUnit);
BENCHMARK_CAPTURE(part, fill, [](Step&) {})->Unit(kUnit);
BENCHMARK_CAPTURE(part, fill_and_quantise, [](Step& step) {
  step.to_integers(step.gradient);
})->Unit(kUnit);
BENCHMARK_CAPTURE(part, fill_and_plan, [](Step& step) { step.make_plan(); })->Unit(kUnit);
BENCHMARK_CAPTURE(part, fill_and_restore, [](Step& step) {
  step.restore();
  step.to_integers(step.gradient);
})->Unit(kUnit);

}  // namespace
