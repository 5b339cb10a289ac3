// What the public calls share: opening a frame or a body, decoding it whole or in part.
// In: frames of callers.
// Out: decoders and bytes.
// Assumes: nothing of the bytes.
#pragma once

#include <memory>
#include <mutex>

#include "frame/tensor_body.h"
#include "gradwire/compress.h"
#include "gradwire/frame.h"
#include "lossless/tensor_decoder.h"

namespace gradwire::api {

/// The output budget of an input of `size` bytes.
std::uint64_t output_budget(const DecompressOptions& options, std::uint64_t size) noexcept;

/// Throws for a frame that does not hold a single tensor.
void refuse_archive(const frame::Prelude& prelude);

/// Parses a single-tensor frame; refuses archives with a sentence.
frame::TensorBody open_frame(ByteSpan bytes, std::uint64_t budget);

/// Decodes all chunks into out (exactly the tensor's bytes).
void decode_all(const lossless::TensorDecoder& decoder, std::span<std::uint8_t> out, int threads,
                std::vector<lossless::Scratch>& scratch);

/// Holds the lines of a tensor's view against the budget, for calls that do not hold its elements
/// against it
/// (`limit`); to be called before a TensorDecoder is made.
void check_view(const frame::TensorBody& body, std::uint64_t budget);

/// Working memory that concurrent readers of one archive borrow, so that it is made once a thread.
class ScratchPool {
 public:
  using Item = std::unique_ptr<std::vector<lossless::Scratch>>;
  Item take();
  void give(Item item);

 private:
  std::mutex mutex_;
  std::vector<Item> free_;
};

/// Borrows for a scope.
class ScratchLoan {
 public:
  explicit ScratchLoan(ScratchPool& pool) : pool_(&pool), item_(pool.take()) {}
  ~ScratchLoan() { pool_->give(std::move(item_)); }
  ScratchLoan(const ScratchLoan&) = delete;
  ScratchLoan& operator=(const ScratchLoan&) = delete;
  std::vector<lossless::Scratch>& operator*() const noexcept { return *item_; }

 private:
  ScratchPool* pool_;
  ScratchPool::Item item_;
};

/// Decodes elements first .. last - 1, which must be within the budget.
std::vector<std::uint8_t> decode_range(const lossless::TensorDecoder& decoder, std::uint64_t first,
                                       std::uint64_t last, std::uint64_t budget);

TensorInfo describe(const lossless::TensorDecoder& decoder, std::uint64_t compressed_bytes);

/// Bytes of a tensor; throws when dtype or shape cannot be.
std::uint64_t tensor_bytes(DType dtype, std::span<const std::uint64_t> shape);

/// Checks that shape and data agree and the options are in range.
void check_tensor(const TensorView& tensor);
void check_options(const CompressOptions& options);
void check_options(const DecompressOptions& options);

inline constexpr std::uint64_t kDefaultBudget = std::uint64_t{1} << 30;

}  // namespace gradwire::api
