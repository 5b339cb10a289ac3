// What do codes cost that are built from a fitted distribution instead of counts? For each file of
// f32, bf16 or f16 tensors (safetensors) given: its gradients are quantised, tensor by tensor, and
// bits a value are summed over them.
//   build/release/bench/gennorm_bench FILE...
// Columns: the error (relative L2); the fitted beta, weighted median; bits a value: the entropy of
// the symbols' counts, then by how much more in percent an ideal code takes that is built from the
// fitted distribution, and from a normal one of the same variance and share of zeros; Huffman codes
// of at most 11 bits, from counts (tables not included) and from the fitted distribution.

#include "lossy/gennorm/gennorm.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "float_tensors.h"
#include "lossy/gennorm/distribution.h"
#include "lossy/gennorm/model.h"
#include "stages/entropy/code_lengths.h"

namespace {

using namespace gradwire::lossy;
using gradwire::bench::read_tensors;

double huffman_bits(const Counts& counts, std::span<const std::uint64_t> weights) {
  const auto lengths = gradwire::entropy::code_lengths(weights);
  double bits = 0;
  for (std::size_t i = 0; i < counts.size(); ++i)
    bits += static_cast<double>(counts[i]) * lengths[i];
  return bits;
}

struct Sums {
  double values = 0, error = 0, square = 0;
  double entropy = 0, fitted = 0, refined = 0, normal = 0, huffman = 0, huffman_fitted = 0;
  std::vector<std::pair<double, double>> betas;  ///< beta, values

  double median_beta() {
    std::ranges::sort(betas);
    double passed = 0;
    for (const auto& [beta, count] : betas)
      if ((passed += count) >= values / 2) return beta;
    return 0;
  }
};

void add(const std::vector<float>& tensor, const GennormOptions& options, Sums& sums) {
  GennormSymbols out;
  if (!quantise(tensor, options, out)) return;
  std::vector<float> back(tensor.size());
  dequantise(out, options, back);
  for (std::size_t i = 0; i < tensor.size(); ++i) {
    const double off = double{back[i]} - double{tensor[i]};
    sums.error += off * off;
    sums.square += double{tensor[i]} * double{tensor[i]};
  }
  const Counts counts = count_symbols(out.symbols, alphabet(options));
  const auto levels = levels_of(options, out.model.level_row);
  const ValueModel fitted = value_model(out.model);
  const auto weights = symbol_weights(*levels, fitted);
  refine_model(*levels, counts, out.model);
  const auto refined = symbol_weights(*levels, value_model(out.model));
  const auto n = static_cast<double>(tensor.size());
  sums.values += n;
  sums.betas.emplace_back(fitted.beta, n);
  sums.entropy += n * entropy_bits(counts);
  sums.fitted += n * coded_bits(counts, weights);
  sums.refined += n * coded_bits(counts, refined);
  sums.normal +=
      n *
      coded_bits(counts, symbol_weights(*levels, {2, fitted.spread, fitted.zeros, fitted.minus}));
  sums.huffman += huffman_bits(counts, counts);
  sums.huffman_fitted += huffman_bits(counts, refined);
}

struct Row {
  const char* name;
  GennormOptions options;
};
const std::vector<Row> kRows{
    {"lloyd 15", {.levels = 15}},
    {"lloyd 15 M=2", {.levels = 15, .weight_power = 2}},
    {"lloyd 63", {.levels = 63}},
    {"uniform 65 step 0.25", {.grid = Grid::uniform, .levels = 65, .step = 0.25F}},
    {"uniform 255 step 0.1", {.grid = Grid::uniform, .levels = 255, .step = 0.1F}},
    {"floats 1+3+2 least error", {.grid = Grid::float_bits}},
    {"floats 1+3+2 largest", {.grid = Grid::float_bits, .bias = FloatBias::largest}},
    {"floats 1+2+1 least error",
     {.grid = Grid::float_bits, .exponent_bits = 2, .fraction_bits = 1}},
    {"floats 1+2+1 largest",
     {.grid = Grid::float_bits,
      .exponent_bits = 2,
      .fraction_bits = 1,
      .bias = FloatBias::largest}},
};

}  // namespace

int main(int count, char** paths) {
  std::printf(
      "| file | grid | error | beta | entropy | fitted | refined | normal | Huffman | refined |\n");
  std::printf("|---|---|---|---|---|---|---|---|---|---|\n");
  for (int i = 1; i < count; ++i) {
    const auto tensors = read_tensors(paths[i]);
    const std::string name = std::filesystem::path(paths[i]).stem();
    for (const Row& row : kRows) {
      Sums sums;
      for (const auto& tensor : tensors) add(tensor.values, row.options, sums);
      std::printf(
          "| %s | %s | %.4f | %.2f | %.3f | +%.1f %% | +%.1f %% | +%.1f %% | %.3f | %.3f |\n",
          name.c_str(), row.name, std::sqrt(sums.error / sums.square), sums.median_beta(),
          sums.entropy / sums.values, 100 * (sums.fitted / sums.entropy - 1),
          100 * (sums.refined / sums.entropy - 1), 100 * (sums.normal / sums.entropy - 1),
          sums.huffman / sums.values, sums.huffman_fitted / sums.values);
    }
  }
  return 0;
}
