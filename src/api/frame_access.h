// What the public calls share: opening a frame, budgets, working memory, checks of arguments.
// In: frames and arguments of callers.
// Out: opened tensors, or errors.
// Assumes: nothing of the bytes.
#pragma once

#include <memory>
#include <mutex>

#include "api/open_tensor.h"
#include "gradwire/compress.h"
#include "gradwire/frame.h"

namespace gradwire::api {

/// The output budget of an input of `size` bytes.
std::uint64_t output_budget(const DecompressOptions& options, std::uint64_t size) noexcept;

/// Throws for a frame that does not hold a single tensor.
void refuse_archive(const frame::Prelude& prelude);

/// Opens a single-tensor frame; refuses archives with a sentence.
OpenTensor open_frame(ByteSpan bytes, std::uint64_t max_output, bool verify);

/// Working memory that concurrent readers of one archive borrow, so that it is made once a thread.
class ScratchPool {
 public:
  using Item = std::unique_ptr<DecodeScratch>;
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
  DecodeScratch& operator*() const noexcept { return *item_; }

 private:
  ScratchPool* pool_;
  ScratchPool::Item item_;
};

/// Bytes of a tensor; throws when dtype or shape cannot be.
std::uint64_t tensor_bytes(DType dtype, std::span<const std::uint64_t> shape);

/// Checks that shape and data agree and the options are in range.
void check_tensor(const TensorView& tensor);
void check_options(const CompressOptions& options);
void check_options(const DecompressOptions& options);

inline constexpr std::uint64_t kDefaultBudget = std::uint64_t{1} << 30;

}  // namespace gradwire::api
