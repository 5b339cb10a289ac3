// What does rounding by the mantissa ladder leave of a file, and what does it change? For each file
// of f32, bf16 or f16 tensors (safetensors) given, all taken as f32:
//   build/release/bench/mantissa_bench FILE...
// Columns: frames of level 2, tensor by tensor, as a share of f32, exact and after the ladder with
// its default options, and with what lies 12 octaves or more below the largest made zero; the
// errors (relative L2) of both.

#include "lossy/mantissa/mantissa.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "float_tensors.h"
#include "gradwire/compress.h"

namespace {

using gradwire::bench::Tensor;
using gradwire::lossy::MantissaOptions;

std::size_t frame_bytes(const Tensor& tensor) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(tensor.values.data());
  const std::size_t size = 4 * tensor.values.size();
  return gradwire::compress({gradwire::DType::f32, tensor.shape, {bytes, size}}).size();
}

struct Result {
  double share;
  double error;
};

Result measure(const std::vector<Tensor>& tensors, const MantissaOptions& options) {
  double size = 0, values = 0, error = 0, square = 0;
  for (const Tensor& tensor : tensors) {
    Tensor rounded = tensor;
    if (!gradwire::lossy::round_mantissas(tensor.values, options, rounded.values)) continue;
    size += static_cast<double>(frame_bytes(rounded));
    values += static_cast<double>(tensor.values.size());
    for (std::size_t i = 0; i < tensor.values.size(); ++i) {
      error += std::pow(double{rounded.values[i]} - double{tensor.values[i]}, 2);
      square += std::pow(double{tensor.values[i]}, 2);
    }
  }
  return {size / (4 * values), std::sqrt(error / square)};
}

}  // namespace

int main(int count, char** paths) {
  std::printf("| file | exact | ladder | error | and cut | error |\n|---|---|---|---|---|---|\n");
  for (int i = 1; i < count; ++i) {
    const std::vector<Tensor> tensors = gradwire::bench::read_tensors(paths[i]);
    const Result exact = measure(tensors, {.top_bits = 23, .slope = 0});
    const Result ladder = measure(tensors, {});
    const Result cut = measure(tensors, {.kept_octaves = 12});
    const std::string name = std::filesystem::path(paths[i]).stem();
    std::printf("| %s | %.4f | %.4f | %.1e | %.4f | %.1e |\n", name.c_str(), exact.share,
                ladder.share, ladder.error, cut.share, cut.error);
  }
  return 0;
}
