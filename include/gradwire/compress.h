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

/// Restore the tensor of one frame, every bit of it; of a lossy frame the values that its method
/// sends. Throws Error(truncated | corrupt | unsupported
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
  /// Streaming: begin, feed the data in pieces of any size, finish. Plan and tables depend on the
  /// whole tensor and stand before the values, so the pieces are kept and the frame comes at the
  /// end: peak memory is the tensor + the frame. begin drops a tensor that was not finished; feed
  /// throws Error(invalid_argument) for more bytes than the tensor has, finish for fewer.
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
  /// Streaming: feed a frame in pieces of any size; one of no bytes changes nothing. The elements
  /// of a chunk are appended to `out` as soon as the chunk is complete, so a caller that empties
  /// `out` between calls needs memory for the head of the frame, a piece and a few chunks only. The
  /// checksums stand at the frame's end: what was appended is verified when feed returns true,
  /// which says that the frame is complete. Throws as decompress; `out` is then as before the call,
  /// what earlier calls appended is void, and the next call begins a new frame, as it does after
  /// true. Bytes behind the frame in one piece with its end are `corrupt`. Without max_output the
  /// limit is that of the bytes fed so far. A lossy frame has no chunks: all of it is appended in
  /// the end, verified.
  bool feed(std::span<const std::uint8_t> bytes, std::vector<std::uint8_t>& out);
  /// Ends the stream: throws Error(truncated) unless the frame that was fed is complete.
  void finish() const;
  /// Dtype and shape of the frame being fed (no data); nullopt until its head has come in.
  std::optional<Tensor> header() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gradwire
