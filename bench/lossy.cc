// What does a lossy method cost a rank, beside a memcpy of the gradient? Feedback, selection,
// rounding and coding of one matrix ("encode"), and decoding and adding one body ("decode").
// A rank alone makes both: what it sends it decodes.

#include "gradwire/lossy.h"

#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "gradwire/methods.h"

namespace {

using namespace gradwire;

constexpr std::size_t kRows = 4096, kColumns = 2048;
constexpr std::size_t kValues = kRows * kColumns;

/// Laplace variables times a scale that differs by row.
const std::vector<float>& gradient() {
  static const std::vector<float> values = [] {
    std::vector<float> drawn(kValues);
    std::uint64_t state = 1;
    for (std::size_t i = 0; i < kValues; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const double uniform = (static_cast<double>(state >> 11) + 1) * 0x1p-53;
      const double scale = 1e-3 * std::exp2(static_cast<double>(i / kColumns % 7));
      drawn[i] = static_cast<float>((state >> 10 & 1 ? scale : -scale) * std::log(uniform));
    }
    return drawn;
  }();
  return values;
}

/// A network of lgc, of the widths that training uses (docs/exchange.md 9.4); small weights, as
/// what it decodes does not matter here.
std::vector<std::uint8_t> network() {
  constexpr std::array<std::uint16_t, 9> kWidths{64, 128, 256, 64, 4, 32, 64, 128, 32};
  std::size_t floats = 0, from = 1;
  for (std::size_t i = 0; i < kWidths.size(); ++i) {
    const std::size_t taps = i == 4 ? 1 : 3;
    floats += (taps * std::exchange(from, kWidths[i]) + 1) * kWidths[i];
  }
  const std::vector<float> weights(floats + from + 1, 0.01F);
  std::vector<std::uint8_t> bytes{'G', 'W', 'L', 'N', 1, 4};
  const auto append = [&](const auto& list) {
    const auto* first = reinterpret_cast<const std::uint8_t*>(list.data());
    bytes.insert(bytes.end(), first, first + list.size() * sizeof(list[0]));
  };
  append(kWidths);
  append(weights);
  return bytes;
}

/// Seconds of a memcpy of the gradient, best of several.
double copy_seconds() {
  static const double seconds = [] {
    std::vector<float> copy(kValues);
    double best = 1;
    for (int i = 0; i < 20; ++i) {
      const auto start = std::chrono::steady_clock::now();
      std::memcpy(copy.data(), gradient().data(), kValues * sizeof(float));
      benchmark::DoNotOptimize(copy.data());
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      best = std::min(best, took.count());
    }
    return best;
  }();
  return seconds;
}

void run(benchmark::State& state, const std::string& spec) {
  LossyState kept(spec, 0, 1);
  LossyBucket bucket(kept, 0, DType::f32, {{"weight", {kRows, kColumns}}});
  std::vector<float> data(kValues);
  if (kept.wants_network()) kept.set_network(network());
  double encode = 1e9, decode = 1e9, bits = 0;
  for (auto _ : state) {
    state.PauseTiming();
    data = gradient();
    state.ResumeTiming();
    const auto exchange =
        bucket.reduce({reinterpret_cast<std::uint8_t*>(data.data()), kValues * sizeof(float)}, 0);
    if (exchange->error()) return state.SkipWithError(exchange->error()->what());
    kept.end_step(true);
    const ExchangeStats& stats = exchange->stats();
    encode = std::min(encode, stats.encode_s);
    decode = std::min(decode, stats.decode_s);
    const LossyBytes& lossy = stats.lossy;
    bits = 8.0 * static_cast<double>(lossy.index + lossy.values + lossy.frames) / kValues;
  }
  state.counters["encode_per_memcpy"] = copy_seconds() / encode;
  state.counters["decode_per_memcpy"] = copy_seconds() / decode;
  state.counters["bits_a_value"] = bits;
}

const bool kRegistered = [] {
  for (const std::string spec : {"topk(keep=0.01)",
                                 "topk(keep=0.01,values=f16)",
                                 "dgc(keep=0.001)",
                                 "sidco(keep=0.001)",
                                 "randomk",
                                 "threshold(bound=0.1)",
                                 "qsgd",
                                 "qsgd(way=two_shot)",
                                 "qgz",
                                 "terngrad",
                                 "natural",
                                 "sign",
                                 "efsign",
                                 "onebit",
                                 "cast",
                                 "cast(values=e4m3)",
                                 "gennorm",
                                 "co3",
                                 "gcomp",
                                 "thc",
                                 "thc(rotation=0)",
                                 "lhc",
                                 "powersgd",
                                 "acpsgd",
                                 "lgc(learn=0)",
                                 "lgc(learn=0,mode=server)"})
    benchmark::RegisterBenchmark(spec.c_str(), run, spec)->Unit(benchmark::kMillisecond);
  return true;
}();

}  // namespace
