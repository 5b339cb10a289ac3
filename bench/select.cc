// What does it cost to select 0.1 % of ten million values? nth_element is what exact top-k is
// compared with: magnitudes copied, the k-th largest found, a pass that collects.

#include "lossy/select/select.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include <benchmark/benchmark.h>

#include "base/counter_random.h"
#include "lossy/select/magnitude.h"

namespace {

using namespace gradwire::lossy;

constexpr std::size_t kValues = 10'000'000;
constexpr double kKeep = 0.001;

/// Laplace variables; the density that sidco reaches on others is a test's business.
const std::vector<float>& gradient() {
  static const std::vector<float> values = [] {
    std::vector<float> drawn(kValues);
    for (std::size_t i = 0; i < kValues; ++i) {
      const std::uint64_t bits = gradwire::random_bits(1, i);
      const double uniform = (static_cast<double>(bits >> 11) + 1) * 0x1p-53;
      drawn[i] = static_cast<float>((bits & 1 ? 1e-3 : -1e-3) * std::log(uniform));
    }
    return drawn;
  }();
  return values;
}

void report(benchmark::State& state, std::size_t selected) {
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kValues * sizeof(float)));
  state.counters["density_per_asked"] =
      static_cast<double>(selected) / static_cast<double>(count_for_keep(kKeep, kValues));
}

void run(benchmark::State& state, Selector selector) {
  const std::vector<float>& values = gradient();
  SelectOptions options;
  options.selector = selector;
  options.count = count_for_keep(kKeep, kValues);
  SidcoState sidco;
  SelectScratch scratch;
  Indices indices;
  for (auto _ : state) {
    ++options.seed;
    select(values, options, sidco, scratch, indices);
    benchmark::DoNotOptimize(indices.data());
  }
  report(state, indices.size());
}

void nth_element(benchmark::State& state) {
  const std::vector<float>& values = gradient();
  const std::size_t count = count_for_keep(kKeep, kValues);
  Words words;
  Indices indices;
  for (auto _ : state) {
    words.resize(values.size());
    std::transform(values.begin(), values.end(), words.begin(), magnitude);
    const auto nth = words.begin() + static_cast<std::ptrdiff_t>(count - 1);
    std::nth_element(words.begin(), nth, words.end(), std::greater<>());
    indices.clear();
    for (std::size_t i = 0; i < kValues; ++i) {
      if (magnitude(values[i]) >= *nth) indices.push_back(static_cast<std::uint32_t>(i));
    }
    benchmark::DoNotOptimize(indices.data());
  }
  report(state, indices.size());
}

/// The pass that collects, alone: the floor of all that look for a threshold.
void threshold(benchmark::State& state) {
  const std::vector<float>& values = gradient();
  SelectOptions options;
  options.selector = Selector::threshold;
  options.threshold = -1e-3 * std::log(kKeep);
  SidcoState sidco;
  SelectScratch scratch;
  Indices indices;
  for (auto _ : state) {
    select(values, options, sidco, scratch, indices);
    benchmark::DoNotOptimize(indices.data());
  }
  report(state, indices.size());
}

BENCHMARK(threshold)->Unit(benchmark::kMillisecond);
BENCHMARK(nth_element)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(run, top_k, Selector::top_k)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(run, sampled_top_k, Selector::sampled_top_k)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(run, sidco, Selector::sidco)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(run, random_k, Selector::random_k)->Unit(benchmark::kMillisecond);

}  // namespace
