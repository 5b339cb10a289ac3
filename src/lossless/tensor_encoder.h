// A tensor to a body or a frame: plan, count, code, and put the sections together.
// In: a tensor and options.
// Out: bytes appended.
// Assumes: data and shape agree (checked by the API).
#pragma once

#include "gradwire/compress.h"
#include "lossless/plan.h"
#include "lossless/scratch.h"

namespace gradwire::lossless {

/// Working memory of an encoder.
struct EncoderMemory {
  std::size_t workers = 1;
  std::vector<Scratch> scratch;  ///< one a thread, or one a chunk that is kept
  std::vector<Bytes> pieces;     ///< of a batch of chunks

  void reserve(int threads, std::size_t batch, std::uint64_t kept_chunks);
};

/// Appends a whole frame, or with in_archive a body without prelude.
void encode_tensor(const TensorView& tensor, const CompressOptions& options, bool in_archive,
                   EncoderMemory& memory, Bytes& out);

/// Most bytes that encode_tensor appends.
std::size_t encoded_bound(DType dtype, std::uint64_t n) noexcept;

}  // namespace gradwire::lossless
