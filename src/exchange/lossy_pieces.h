// How a bucket of a lossy method is cut: pieces of whole tensors.
// In: shapes and a method.
// Out: pieces, and the most bytes that one may take.
// Assumes: the same on all ranks.
#pragma once

#include "exchange/lossy_state.h"

namespace gradwire::exchange {

/// A tensor of a bucket.
struct LossyPart {
  lossy::TensorCoder* coder = nullptr;
  std::uint64_t first = 0;  ///< element in the bucket
  std::uint64_t n = 0;
};

/// What is sent at a time: large tensors alone, small ones together.
struct LossyPiece {
  std::vector<LossyPart> parts;
  std::size_t bound = 0;
};

std::vector<LossyPiece> cut_lossy(const std::vector<LossyPart>& parts, const lossy::Recipe& recipe,
                                  DType dtype);

}  // namespace gradwire::exchange
