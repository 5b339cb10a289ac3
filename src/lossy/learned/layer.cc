#include "lossy/learned/layer.h"

#include <algorithm>
#include <cstring>

#include "base/clones.h"
#include "base/unroll.h"

namespace gradwire::lossy {
namespace {

constexpr std::size_t kLanes = 8;
constexpr std::size_t kVectors = kOutputs / kLanes;
/// Rows that share the load of a weight: what is summed fits the registers.
constexpr std::size_t kRows = 4;
constexpr float kSlope = 0.01F;  ///< of what is negative

using Lanes [[gnu::vector_size(kLanes * sizeof(float))]] = float;

/// One group of outputs of kCount rows; `width` of them are there.
template <std::size_t kCount>
inline void multiply_rows(const float* rows, std::size_t stride, const float* weights,
                          std::size_t depth, const float* bias, std::size_t width, bool leaky,
                          const OutputRows& out) noexcept {
  Lanes sums[kCount][kVectors];
  GRADWIRE_UNROLL
  for (std::size_t r = 0; r < kCount; ++r) std::memcpy(sums[r], bias, sizeof sums[r]);
  for (std::size_t d = 0; d < depth; ++d) {
    Lanes weight[kVectors];
    std::memcpy(weight, weights + d * kOutputs, sizeof weight);
    GRADWIRE_UNROLL
    for (std::size_t r = 0; r < kCount; ++r) {
      const float input = rows[r * stride + d];
      GRADWIRE_UNROLL
      for (std::size_t v = 0; v < kVectors; ++v) sums[r][v] += weight[v] * input;
    }
  }
  for (std::size_t r = 0; r < kCount; ++r) {
    float results[kOutputs];
    std::memcpy(results, sums[r], sizeof results);
    if (leaky)
      for (float& value : results) value = value < 0 ? value * kSlope : value;
    std::copy_n(results, width, out.first + r * out.stride);
  }
}

GRADWIRE_CLONES void multiply_group(const float* weights, const float* bias, std::size_t depth,
                                    std::size_t width, const Rows& rows, bool leaky,
                                    const OutputRows& out) noexcept {
  std::size_t r = 0;
  for (; r + kRows <= rows.count; r += kRows)
    multiply_rows<kRows>(rows.first + r * rows.stride, rows.stride, weights, depth, bias, width,
                         leaky, {out.first + r * out.stride, out.stride});
  for (; r < rows.count; ++r)
    multiply_rows<1>(rows.first + r * rows.stride, rows.stride, weights, depth, bias, width, leaky,
                     {out.first + r * out.stride, out.stride});
}

}  // namespace

void Sequence::reset(std::size_t positions, std::size_t channels) {
  length = positions;
  width = channels;
  values.assign((positions + 2) * channels, 0.0F);
}

void Layer::reset(std::size_t inputs, std::size_t outputs) {
  const std::size_t groups = (outputs + kOutputs - 1) / kOutputs;
  depth = inputs;
  width = outputs;
  weights.assign(groups * kOutputs * inputs, 0.0F);
  bias.assign(groups * kOutputs, 0.0F);
}

void multiply(const Layer& layer, const Rows& rows, bool leaky, const OutputRows& out) noexcept {
  for (std::size_t o = 0; o < layer.width; o += kOutputs)
    multiply_group(layer.weights.data() + o * layer.depth, layer.bias.data() + o, layer.depth,
                   std::min(kOutputs, layer.width - o), rows, leaky, {out.first + o, out.stride});
}

void halve(const Layer& layer, const Sequence& in, Sequence& out) {
  out.reset(in.length / 2, layer.width);
  multiply(layer, {in.before(), 2 * in.width, out.length}, true, {out.at(0), out.width});
}

void double_up(const Doubling& layer, const Sequence& in, Sequence& out) {
  out.reset(2 * in.length, layer.even.width);
  const Rows rows{in.at(0), in.width, in.length};
  multiply(layer.even, rows, true, {out.at(0), 2 * out.width});
  multiply(layer.odd, rows, true, {out.at(1), 2 * out.width});
}

}  // namespace gradwire::lossy
