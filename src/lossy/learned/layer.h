// A layer as a product: each output position is a row of its inputs times a matrix of weights.
// In: positions with their channels side by side; weights.
// Out: the same of the next layer.
// Assumes: buffers have the sizes that are stated; it is not checked.
#pragma once

#include <cstddef>
#include <vector>

namespace gradwire::lossy {

/// Outputs that are computed together; weights are stored for a multiple of them.
inline constexpr std::size_t kOutputs = 16;

/// `length` positions of `width` channels, between two positions of zeros.
struct Sequence {
  std::size_t length = 0, width = 0;
  std::vector<float> values;

  /// Keeps its capacity. The values are zeros.
  void reset(std::size_t positions, std::size_t channels);
  float* at(std::size_t position) noexcept { return values.data() + (position + 1) * width; }
  const float* at(std::size_t position) const noexcept {
    return values.data() + (position + 1) * width;
  }
  /// The position before the first.
  const float* before() const noexcept { return values.data(); }
};

struct Layer {
  std::size_t depth = 0;       ///< inputs of an output
  std::size_t width = 0;       ///< outputs
  std::vector<float> weights;  ///< by groups of kOutputs outputs, then by input
  std::vector<float> bias;

  void reset(std::size_t inputs, std::size_t outputs);
  float& weight(std::size_t input, std::size_t output) noexcept {
    return weights[(output / kOutputs * depth + input) * kOutputs + output % kOutputs];
  }
};

/// A transposed convolution of kernel 3 and stride 2: outputs at even and at odd positions.
struct Doubling {
  Layer even, odd;
};

/// Rows that lie in a sequence: row r begins at first + r * stride.
struct Rows {
  const float* first;
  std::size_t stride, count;
};
struct OutputRows {
  float* first;
  std::size_t stride;
};

/// out = rows * weights + bias, and negative results times 0.01 where `leaky`. Sums begin with the
/// bias and go on in the order of inputs.
void multiply(const Layer& layer, const Rows& rows, bool leaky, const OutputRows& out) noexcept;

/// Kernel 3, stride 2, padding 1: half the positions.
void halve(const Layer& layer, const Sequence& in, Sequence& out);
/// Kernel 3, stride 2, padding 1, output padding 1: twice the positions.
void double_up(const Doubling& layer, const Sequence& in, Sequence& out);

}  // namespace gradwire::lossy
