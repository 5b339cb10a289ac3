// The calls of gradwire/compress.h.

#include "gradwire/compress.h"

#include <algorithm>
#include <numeric>

#include "api/frame_access.h"
#include "api/frame_stream.h"
#include "base/fail.h"
#include "lossless/tensor_encoder.h"

namespace gradwire {

std::size_t compress_bound(DType dtype, std::uint64_t n) {
  return lossless::encoded_bound(dtype, n);
}

struct Compressor::State {
  CompressOptions options;
  lossless::EncoderMemory memory;
  DType dtype = DType::f32;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint8_t> data;
  std::uint64_t expected = 0;  ///< bytes of the tensor
  bool open = false;
};

Compressor::Compressor(const CompressOptions& options) : state_(std::make_unique<State>()) {
  api::check_options(options);
  state_->options = options;
}
Compressor::~Compressor() = default;
Compressor::Compressor(Compressor&&) noexcept = default;
Compressor& Compressor::operator=(Compressor&&) noexcept = default;

void Compressor::compress(const TensorView& tensor, std::vector<std::uint8_t>& frame) {
  api::check_tensor(tensor);
  frame.clear();
  lossless::encode_tensor(tensor, state_->options, false, state_->memory, frame);
}

void Compressor::begin(DType dtype, std::span<const std::uint64_t> shape) {
  state_->open = false;
  state_->expected = api::tensor_bytes(dtype, shape);
  state_->dtype = dtype;
  state_->shape.assign(shape.begin(), shape.end());
  state_->data.clear();
  state_->open = true;
}

void Compressor::feed(std::span<const std::uint8_t> data) {
  if (!state_->open) fail(ErrorKind::invalid_argument, "feed: call begin first");
  const std::uint64_t room = state_->expected - state_->data.size();
  if (data.size() > room) {
    fail(ErrorKind::invalid_argument, "feed: {} bytes given, {} are left of the tensor's {}",
         data.size(), room, state_->expected);
  }
  state_->data.insert(state_->data.end(), data.begin(), data.end());
}

void Compressor::finish(std::vector<std::uint8_t>& frame) {
  if (!state_->open) fail(ErrorKind::invalid_argument, "finish: call begin first");
  state_->open = false;
  compress({state_->dtype, state_->shape, state_->data}, frame);
}

std::vector<std::uint8_t> compress(const TensorView& tensor, const CompressOptions& options) {
  std::vector<std::uint8_t> frame;
  Compressor(options).compress(tensor, frame);
  return frame;
}

struct Decompressor::State {
  explicit State(const DecompressOptions& given) : options(given), stream(given, scratch) {}
  DecompressOptions options;
  api::DecodeScratch scratch;
  api::FrameStream stream;
};

Decompressor::Decompressor(const DecompressOptions& options) {
  api::check_options(options);
  state_ = std::make_unique<State>(options);
}
Decompressor::~Decompressor() = default;
Decompressor::Decompressor(Decompressor&&) noexcept = default;
Decompressor& Decompressor::operator=(Decompressor&&) noexcept = default;

void Decompressor::decompress(std::span<const std::uint8_t> frame, Tensor& tensor) {
  const DecompressOptions& options = state_->options;
  api::open_frame(frame, api::output_budget(options, frame.size()), options.verify)
      .restore(tensor, options.threads, state_->scratch);
}

void Decompressor::decompress_into(std::span<const std::uint8_t> frame,
                                   std::span<std::uint8_t> out) {
  const std::uint64_t budget =
      std::max<std::uint64_t>(out.size(), api::output_budget(state_->options, frame.size()));
  api::open_frame(frame, budget, state_->options.verify)
      .decode(out, state_->options.threads, state_->scratch);
}

std::optional<Tensor> Decompressor::header() const { return state_->stream.header(); }

bool Decompressor::feed(std::span<const std::uint8_t> bytes, std::vector<std::uint8_t>& out) {
  return state_->stream.feed(bytes, out);
}

void Decompressor::finish() const {
  if (state_->stream.complete()) return;
  fail(ErrorKind::truncated, "finish: the frame is not complete; feed the rest of it");
}

Tensor decompress(std::span<const std::uint8_t> frame, const DecompressOptions& options) {
  Tensor tensor;
  Decompressor(options).decompress(frame, tensor);
  return tensor;
}

void decompress_into(std::span<const std::uint8_t> frame, std::span<std::uint8_t> out,
                     const DecompressOptions& options) {
  Decompressor(options).decompress_into(frame, out);
}

}  // namespace gradwire
