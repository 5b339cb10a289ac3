// The calls of gradwire/compress.h.

#include "gradwire/compress.h"

#include <algorithm>
#include <numeric>

#include "api/frame_access.h"
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
  std::uint64_t expected = 0;
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
  state_->dtype = dtype;
  state_->shape.assign(shape.begin(), shape.end());
  state_->data.clear();
  state_->open = true;
}

void Compressor::feed(std::span<const std::uint8_t> data) {
  if (!state_->open) fail(ErrorKind::invalid_argument, "feed: call begin first");
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
  DecompressOptions options;
  std::vector<lossless::Scratch> scratch;
  std::vector<std::uint8_t> pending;  ///< bytes of an unfinished frame
  std::optional<Tensor> header;       ///< dtype and shape of the frame that was fed
};

Decompressor::Decompressor(const DecompressOptions& options) : state_(std::make_unique<State>()) {
  api::check_options(options);
  state_->options = options;
}
Decompressor::~Decompressor() = default;
Decompressor::Decompressor(Decompressor&&) noexcept = default;
Decompressor& Decompressor::operator=(Decompressor&&) noexcept = default;

void Decompressor::decompress(std::span<const std::uint8_t> frame, Tensor& tensor) {
  const frame::TensorBody body =
      api::open_frame(frame, api::output_budget(state_->options, frame.size()));
  const lossless::TensorDecoder decoder(body, state_->options.verify);
  tensor.dtype = body.header.dtype;
  tensor.shape = body.header.dims;
  tensor.data.resize(static_cast<std::size_t>(body.header.bytes()));
  api::decode_all(decoder, tensor.data, state_->options.threads, state_->scratch);
}

void Decompressor::decompress_into(std::span<const std::uint8_t> frame,
                                   std::span<std::uint8_t> out) {
  const std::uint64_t budget =
      std::max<std::uint64_t>(out.size(), api::output_budget(state_->options, frame.size()));
  const frame::TensorBody body = api::open_frame(frame, budget);
  const lossless::TensorDecoder decoder(body, state_->options.verify);
  api::decode_all(decoder, out, state_->options.threads, state_->scratch);
}

std::optional<Tensor> Decompressor::header() const { return state_->header; }

bool Decompressor::feed(std::span<const std::uint8_t> bytes, std::vector<std::uint8_t>& out) {
  std::vector<std::uint8_t>& pending = state_->pending;
  if (pending.empty()) state_->header.reset();
  pending.insert(pending.end(), bytes.begin(), bytes.end());
  Tensor tensor;
  try {
    const auto size = frame_size(pending);
    if (!size || pending.size() < *size) return false;
    decompress(pending, tensor);
  } catch (...) {
    pending.clear();  // the next frame starts anew
    throw;
  }
  pending.clear();
  out.insert(out.end(), tensor.data.begin(), tensor.data.end());
  state_->header = Tensor{tensor.dtype, tensor.shape, {}};
  return true;
}

Tensor decompress(std::span<const std::uint8_t> frame, const DecompressOptions& options) {
  Tensor tensor;
  Decompressor(options).decompress(frame, tensor);
  return tensor;
}

void decompress_into(std::span<const std::uint8_t> frame, std::span<std::uint8_t> out,
                     const DecompressOptions& options) {
  api::check_options(options);
  const frame::TensorBody body = api::open_frame(
      frame, std::max<std::uint64_t>(out.size(), api::output_budget(options, frame.size())));
  const lossless::TensorDecoder decoder(body, options.verify);
  std::vector<lossless::Scratch> scratch;
  api::decode_all(decoder, out, options.threads, scratch);
}

}  // namespace gradwire
