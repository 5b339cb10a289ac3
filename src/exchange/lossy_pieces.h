// How a bucket of a lossy method is cut: pieces of whole tensors, or of runs of a tensor.
// In: tensors and a method.
// Out: pieces, and the most bytes that one may take.
// Assumes: the same on all ranks.
#pragma once

#include "exchange/lossy_state.h"

namespace gradwire::exchange {

/// A tensor of a bucket, or a run of its elements.
struct LossyPart {
  lossy::TensorCoder* coder = nullptr;
  std::uint64_t first = 0;  ///< element in the bucket
  std::uint64_t n = 0;
  std::uint64_t begin = 0;  ///< element in the tensor
};

/// What is sent at a time.
struct LossyPiece {
  std::vector<LossyPart> parts;
  std::size_t bound = 0;
};

/// Packs whole tensors, or runs, in order: large ones alone, small ones together.
std::vector<LossyPiece> cut_lossy(const std::vector<LossyPart>& parts, const lossy::Recipe& recipe,
                                  DType dtype);

/// A shard of nearly equal size for each rank, in the order of the bucket, in pieces. Runs begin at
/// a quantiser's bucket.
std::vector<std::vector<LossyPiece>> cut_lossy_shards(const std::vector<LossyPart>& tensors,
                                                      const lossy::Recipe& recipe, DType dtype,
                                                      unsigned world);

}  // namespace gradwire::exchange
