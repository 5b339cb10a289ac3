// Compress and decompress tensors: the calls that most programs need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "gradwire/dtype.h"
#include "gradwire/error.h"
#include "gradwire/options.h"

namespace gradwire {

/// A tensor that somebody else owns: contiguous, row-major, little-endian.
struct TensorView {
  DType dtype = DType::f32;
  std::span<const std::uint64_t> shape;
  std::span<const std::uint8_t> data;  ///< exactly element count x element size bytes
};

/// A tensor with its own memory.
struct Tensor {
  DType dtype = DType::f32;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint8_t> data;
};

/// Most bytes that the frame of a tensor of n elements can take (32 dimensions or fewer).
std::size_t compress_bound(DType dtype, std::uint64_t n);

/// Compress one tensor into one frame. The input is not changed.
/// Throws Error(invalid_argument) when data and shape disagree or an option is out of range.
/// Peak memory: the frame + about 4 MiB a thread. Thread-safe.
std::vector<std::uint8_t> compress(const TensorView& tensor, const CompressOptions& options = {});

/// Restore the tensor of one frame, every bit of it. Throws Error(truncated | corrupt | unsupported
/// | limit).
Tensor decompress(std::span<const std::uint8_t> frame, const DecompressOptions& options = {});

/// The same into memory of the caller, which must have exactly the tensor's size.
void decompress_into(std::span<const std::uint8_t> frame, std::span<std::uint8_t> out,
                     const DecompressOptions& options = {});

/// Keeps its working memory between calls: after the first call of a size it allocates nothing.
/// One thread at a time.
class Compressor {
 public:
  explicit Compressor(const CompressOptions& options = {});
  ~Compressor();
  Compressor(Compressor&&) noexcept;
  Compressor& operator=(Compressor&&) noexcept;
  /// Replaces the content of `frame`.
  void compress(const TensorView& tensor, std::vector<std::uint8_t>& frame);
  /// Streaming: begin, feed the data in pieces of any size, finish. The frame depends on statistics
  /// of the whole tensor, so it comes at the end and the pieces are kept until then.
  void begin(DType dtype, std::span<const std::uint64_t> shape);
  void feed(std::span<const std::uint8_t> data);
  void finish(std::vector<std::uint8_t>& frame);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class Decompressor {
 public:
  explicit Decompressor(const DecompressOptions& options = {});
  ~Decompressor();
  Decompressor(Decompressor&&) noexcept;
  Decompressor& operator=(Decompressor&&) noexcept;
  /// Replaces the content of `tensor`.
  void decompress(std::span<const std::uint8_t> frame, Tensor& tensor);
  /// The same into memory of the caller, which must have exactly the tensor's size.
  void decompress_into(std::span<const std::uint8_t> frame, std::span<std::uint8_t> out);
  /// Streaming: feed a frame in pieces of any size; what has been restored so far is appended to
  /// `out`. Returns true once the frame is complete (bytes behind it are an error).
  bool feed(std::span<const std::uint8_t> bytes, std::vector<std::uint8_t>& out);
  /// Dtype and shape of the frame being fed (no data); nullopt until its header has come in.
  std::optional<Tensor> header() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gradwire
