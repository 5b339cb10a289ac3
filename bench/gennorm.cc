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
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "base/half.h"
#include "lossy/gennorm/distribution.h"
#include "lossy/gennorm/model.h"
#include "stages/entropy/code_lengths.h"

namespace {

using namespace gradwire::lossy;

using Tensor = std::vector<float>;

/// The text behind `"key":` up to the next of `ends`, from `at` on.
std::string field(const std::string& header, std::size_t at, const std::string& key, char end) {
  const std::size_t start = header.find("\"" + key + "\":", at) + key.size() + 3;
  return header.substr(start, header.find(end, start) - start);
}

Tensor widen(const char* data, std::size_t bytes, const std::string& dtype) {
  const std::size_t width = dtype == "F32" ? 4 : 2;
  Tensor values(bytes / width);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint32_t bits = 0;
    for (std::size_t k = width; k-- > 0;)
      bits = bits << 8 | static_cast<unsigned char>(data[i * width + k]);
    if (dtype == "F32")
      values[i] = std::bit_cast<float>(bits);
    else if (dtype == "BF16")
      values[i] = gradwire::from_bf16(static_cast<std::uint16_t>(bits));
    else
      values[i] = gradwire::from_f16(static_cast<std::uint16_t>(bits));
  }
  return values;
}

/// The float tensors of a file that is taken to be sound.
std::vector<Tensor> read_tensors(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::size_t length = 0;
  for (std::size_t k = 8; k-- > 0;) length = length << 8 | static_cast<unsigned char>(all.at(k));
  const std::string header = all.substr(8, length);
  std::vector<Tensor> tensors;
  for (std::size_t at = header.find("\"dtype\""); at != std::string::npos;
       at = header.find("\"dtype\"", at + 1)) {
    std::string dtype = field(header, at, "dtype", ',');
    std::erase(dtype, '"');
    if (dtype != "F32" && dtype != "BF16" && dtype != "F16") continue;
    const std::string offsets = field(header, at, "data_offsets", ']');
    const std::size_t begin = std::stoull(offsets.substr(offsets.find('[') + 1));
    const std::size_t end = std::stoull(offsets.substr(offsets.find(',') + 1));
    tensors.push_back(widen(all.data() + 8 + length + begin, end - begin, dtype));
  }
  return tensors;
}

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

void add(const Tensor& tensor, const GennormOptions& options, Sums& sums) {
  GennormSymbols out;
  if (!quantise(tensor, options, out)) return;
  Tensor back(tensor.size());
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
    const std::vector<Tensor> tensors = read_tensors(paths[i]);
    const std::string name = std::filesystem::path(paths[i]).stem();
    for (const Row& row : kRows) {
      Sums sums;
      for (const Tensor& tensor : tensors) add(tensor, row.options, sums);
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
