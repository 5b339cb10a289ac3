// A tensor's body, exact or lossy: what the public calls ask of one.
// In: the bytes of a frame with one tensor, or of a body in an archive.
// Out: its header, its elements, whole or in part, and words for what it says.
// Assumes: nothing of the bytes, which outlive it.
#pragma once

#include <variant>
#include <vector>

#include "frame/tensor_body.h"
#include "gradwire/frame.h"
#include "lossless/scratch.h"
#include "lossy/codec/body.h"

namespace gradwire::api {

/// Working memory of decoding; keeps its capacity.
struct DecodeScratch {
  std::vector<lossless::Scratch> workers;  ///< one a thread
  lossy::DecodeMemory lossy;
  lossy::Selected selected;
};

/// Where a body stands, and what it may be.
struct BodyContext {
  std::size_t prelude = 0;  ///< bytes before the body that checksums cover; 0 in an archive
  std::size_t origin = 0;   ///< offset of the bytes in the frame
  bool checksums = false;
  bool lossy = false;  ///< the frame may hold lossy bodies
};

class OpenTensor {
 public:
  /// Reads the head. Throws limit for a tensor of more than `max_output` bytes. A lossy body's
  /// checksum is compared here, if `verify`, those of an exact one's chunks where they are decoded.
  OpenTensor(ByteSpan bytes, const BodyContext& context, std::uint64_t max_output, bool verify);

  const frame::TensorHeader& header() const noexcept;
  /// All elements; `out` has exactly their bytes. A lossy body is decoded by one thread and needs
  /// some 20 bytes a selected element meanwhile.
  void decode(std::span<std::uint8_t> out, int threads, DecodeScratch& scratch) const;
  /// The same in place of what `tensor` held; its memory is asked for once the head is known to be
  /// sound, of a lossy body all of it.
  void restore(Tensor& tensor, int threads, DecodeScratch& scratch) const;
  /// Elements first .. last - 1, which must be within the budget; of a lossy body, which is decoded
  /// whole, all elements.
  std::vector<std::uint8_t> range(std::uint64_t first, std::uint64_t last,
                                  std::uint64_t budget) const;
  /// `budget` holds what side information takes.
  TensorInfo describe(std::uint64_t compressed_bytes, std::uint64_t budget) const;

 private:
  std::variant<frame::TensorBody, lossy::Body> body_;
  bool verify_;
};

/// Holds the lines of a tensor's view against the budget, for calls that do not hold its elements
/// against it (`limit`); to be called before a TensorDecoder is made.
void check_view(const frame::TensorBody& body, std::uint64_t budget);

TensorInfo describe(const frame::TensorBody& body);
TensorInfo describe(const lossy::Body& body);

}  // namespace gradwire::api
