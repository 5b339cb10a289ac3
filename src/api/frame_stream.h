// One tensor's frame that comes in pieces, decoded chunk by chunk.
// In: pieces of any size.
// Out: the elements of each chunk once it is complete; the verdict of the checksums, which stand
// behind all chunks, at the end.
// Assumes: nothing of the bytes. A lossy frame is kept until it is whole. Of an exact one it holds
// the head of the frame, the chunks that a slice of a piece touches and 8 bytes a chunk. One caller
// at a time.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "api/open_tensor.h"
#include "gradwire/compress.h"
#include "lossless/tensor_decoder.h"

namespace gradwire::api {

class FrameStream {
 public:
  FrameStream(const DecompressOptions& options, DecodeScratch& scratch)
      : options_(options), scratch_(&scratch) {}

  /// Appends what could be restored; true once the frame is complete and its checksums agree. The
  /// next piece then begins another frame, as after an error, which leaves `out` as it was.
  bool feed(ByteSpan bytes, Bytes& out);
  bool complete() const noexcept { return part_ == Part::done; }
  /// Dtype and shape, once known.
  const std::optional<Tensor>& header() const noexcept { return header_; }

 private:
  enum class Part { head, chunks, rest, done };
  /// A frame whose head is complete.
  struct Opened {
    Bytes head;
    frame::TensorBody body;
    std::optional<lossless::TensorDecoder> decoder;
  };

  void restart();
  void advance(Bytes& out);
  void read_head(Bytes& out);
  void open(const frame::Prelude& prelude, const frame::ChunksPlace& chunks);
  void decode_whole(Bytes& out);
  void decode_ready(Bytes& out);
  void check_budget(std::uint64_t output) const;
  /// Appends chunks next_ .. end - 1, which are in pending_.
  void decode_chunks(std::uint64_t end, Bytes& out);
  void read_rest();
  void note_header(const frame::TensorHeader& header);
  void drop(std::size_t n);

  DecompressOptions options_;
  DecodeScratch* scratch_;
  Part part_ = Part::head;
  Bytes pending_;               ///< bytes not used yet
  std::uint64_t at_ = 0;        ///< their place in the frame
  std::uint64_t received_ = 0;  ///< bytes fed of this frame
  std::uint64_t size_ = 0;      ///< of the frame, once known
  std::unique_ptr<Opened> opened_;
  std::uint64_t next_ = 0;           ///< first chunk not restored
  std::vector<std::uint64_t> sums_;  ///< checksums of the chunks restored
  std::optional<Tensor> header_;
};

}  // namespace gradwire::api
