// What the public calls share: opening a frame or a body, decoding it whole or in part.
// In: frames of callers. Out: decoders and bytes. Assumes: nothing of the bytes.
#pragma once

#include "frame/tensor_body.h"
#include "gradwire/compress.h"
#include "gradwire/frame.h"
#include "lossless/tensor_decoder.h"

namespace gradwire::api {

/// The output budget of an input of `size` bytes.
std::uint64_t output_budget(const DecompressOptions& options, std::size_t size) noexcept;

/// Parses a single-tensor frame; refuses archives with a sentence.
frame::TensorBody open_frame(ByteSpan bytes, std::uint64_t budget);

/// Decodes all chunks into out (exactly the tensor's bytes).
void decode_all(const lossless::TensorDecoder& decoder, std::span<std::uint8_t> out, int threads,
                std::vector<lossless::Scratch>& scratch);

/// Decodes elements first .. last - 1.
std::vector<std::uint8_t> decode_range(const lossless::TensorDecoder& decoder, std::uint64_t first, std::uint64_t last);

TensorInfo describe(const lossless::TensorDecoder& decoder, std::uint64_t compressed_bytes);

/// Checks that shape and data agree and the options are in range.
void check_tensor(const TensorView& tensor);
void check_options(const CompressOptions& options);

inline constexpr std::uint64_t kDefaultBudget = std::uint64_t{1} << 30;

}  // namespace gradwire::api
