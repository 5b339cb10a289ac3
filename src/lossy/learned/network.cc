#include "lossy/learned/network.h"

#include <algorithm>

#include "base/fail.h"
#include "base/hash.h"

namespace gradwire::lossy {
namespace {

constexpr std::uint32_t kMagic = 0x4e4c5747;  // "GWLN"
constexpr std::uint8_t kVersion = 1;
constexpr unsigned kMostHalvings = 8;
constexpr std::size_t kMostWidth = 4096;
constexpr std::size_t kMostWeights = std::size_t{1} << 24;
constexpr std::size_t kKernel = 3;

std::size_t read_width(ByteReader& in) {
  const std::size_t at = in.offset();
  const std::size_t width = in.u16("width");
  if (width == 0 || width > kMostWidth)
    fail(ErrorKind::corrupt, "network: width at byte {} is {}, 1 to {} allowed", at, width,
         kMostWidth);
  return width;
}

void read_bias(ByteReader& in, Layer& layer) {
  const std::vector<float> bias = read_floats(in, "bias", layer.width);
  std::ranges::copy(bias, layer.bias.begin());
}

/// Weights (out, in, kernel), as PyTorch's Conv1d has them.
Layer read_convolution(ByteReader& in, std::size_t from, std::size_t to, std::size_t kernel) {
  Layer layer;
  layer.reset(kernel * from, to);
  const std::vector<float> weights = read_floats(in, "weights", to * from * kernel);
  const float* next = weights.data();
  for (std::size_t o = 0; o < to; ++o)
    for (std::size_t c = 0; c < from; ++c)
      for (std::size_t j = 0; j < kernel; ++j) layer.weight(j * from + c, o) = *next++;
  read_bias(in, layer);
  return layer;
}

/// Weights (in, out, kernel), as PyTorch's ConvTranspose1d has them. The kernel's middle gives the
/// even outputs; an odd one has the input before it by the last weight and that behind it by the
/// first.
Doubling read_transposed(ByteReader& in, std::size_t from, std::size_t to) {
  Doubling layer;
  layer.even.reset(from, to);
  layer.odd.reset(2 * from, to);
  const std::vector<float> weights = read_floats(in, "weights", from * to * kKernel);
  const float* next = weights.data();
  for (std::size_t c = 0; c < from; ++c) {
    for (std::size_t o = 0; o < to; ++o) {
      layer.odd.weight(from + c, o) = *next++;
      layer.even.weight(c, o) = *next++;
      layer.odd.weight(c, o) = *next++;
    }
  }
  read_bias(in, layer.even);
  layer.odd.bias = layer.even.bias;
  return layer;
}

}  // namespace

Network::Network(ByteSpan bytes) : bytes_(bytes.begin(), bytes.end()), hash_(hash64(bytes)) {
  ByteReader in(bytes_);
  if (in.u32("magic") != kMagic)
    fail(ErrorKind::corrupt, "network at byte 0: these are no bytes of a network");
  if (const unsigned version = in.u8("version"); version != kVersion)
    fail(ErrorKind::unsupported, "network at byte 4: version {} found, known is {}", version,
         kVersion);
  const Widths widths = read_widths(in);
  read_layers(widths, in);
  in.expect_end("network");
}

Network::Widths Network::read_widths(ByteReader& in) {
  const unsigned halvings = in.u8("halvings");
  if (halvings == 0 || halvings > kMostHalvings)
    fail(ErrorKind::corrupt, "network at byte 5: {} halvings, 1 to {} allowed", halvings,
         kMostHalvings);
  Widths widths;
  for (unsigned i = 0; i < halvings; ++i) widths.encoder.push_back(read_width(in));
  widths.code = read_width(in);
  for (unsigned i = 0; i < halvings; ++i) widths.decoder.push_back(read_width(in));
  std::size_t weights = 0, from = 1;
  for (const std::size_t to : widths.encoder) weights += kKernel * std::exchange(from, to) * to;
  weights += std::exchange(from, widths.code) * widths.code;
  for (const std::size_t to : widths.decoder) weights += kKernel * std::exchange(from, to) * to;
  if (weights > kMostWeights)
    fail(ErrorKind::limit, "network: {} weights, {} allowed", weights, kMostWeights);
  return widths;
}

void Network::read_layers(const Widths& widths, ByteReader& in) {
  code_width_ = widths.code;
  std::size_t from = 1;
  for (const std::size_t to : widths.encoder)
    halving_.push_back(read_convolution(in, std::exchange(from, to), to, kKernel));
  to_code_ = read_convolution(in, std::exchange(from, widths.code), widths.code, 1);
  for (const std::size_t to : widths.decoder)
    doubling_.push_back(read_transposed(in, std::exchange(from, to), to));
  to_values_ = read_convolution(in, from, 1, 1);
}

std::size_t Network::code_length(std::size_t n) const noexcept {
  const std::size_t unit = std::size_t{1} << halving_.size();
  return (n + unit - 1) / unit;
}

std::size_t Network::code_size(std::size_t n) const noexcept {
  return code_width_ * (n / kBlock * code_length(kBlock) + code_length(n % kBlock));
}

void Network::encode(std::span<const float> values, std::span<float> code) {
  float* to = code.data();
  for (std::size_t i = 0; i < values.size(); i += kBlock) {
    const auto block = values.subspan(i, std::min(kBlock, values.size() - i));
    encode_block(block, to);
    to += code_size(block.size());
  }
}

void Network::decode(std::span<const float> code, std::span<float> values) {
  const float* from = code.data();
  for (std::size_t i = 0; i < values.size(); i += kBlock) {
    const auto block = values.subspan(i, std::min(kBlock, values.size() - i));
    decode_block(from, block);
    from += code_size(block.size());
  }
}

void Network::encode_block(std::span<const float> values, float* code) {
  a_.reset(code_length(values.size()) << halving_.size(), 1);
  std::ranges::copy(values, a_.at(0));
  for (const Layer& layer : halving_) {
    halve(layer, a_, b_);
    std::swap(a_, b_);
  }
  multiply(to_code_, {a_.at(0), a_.width, a_.length}, false, {code, code_width_});
}

void Network::decode_block(const float* code, std::span<float> values) {
  a_.reset(code_length(values.size()), code_width_);
  std::copy_n(code, a_.length * a_.width, a_.at(0));
  for (const Doubling& layer : doubling_) {
    double_up(layer, a_, b_);
    std::swap(a_, b_);
  }
  multiply(to_values_, {a_.at(0), a_.width, values.size()}, false, {values.data(), 1});
}

}  // namespace gradwire::lossy
