// How a bucket is cut: shards of ranks, pieces of shards, parts of pieces.
// In: shapes, the number of ranks, elements a piece.
// Out: runs of whole rows, each within one tensor; runs that one rule of addition covers.
// Assumes: the same arguments on all ranks. Nothing here depends on data.
#pragma once

#include <cstdint>
#include <vector>

#include "gradwire/exchange.h"

namespace gradwire::exchange {

/// Rows of one tensor, or a run of a tensor without rows.
struct Part {
  std::uint64_t first = 0;  ///< element in the bucket
  std::uint64_t n = 0;
  std::vector<std::uint64_t> shape;
  bool follows = false;     ///< goes on where the part before has stopped, in the same tensor
  std::uint32_t group = 0;  ///< the tensor's
};

/// What is encoded and sent at a time.
struct Piece {
  std::vector<Part> parts;
  std::uint64_t elements = 0;
};

using Shard = std::vector<Piece>;

/// `count` shards of nearly equal size, in the order of the bucket.
std::vector<Shard> cut_bucket(const std::vector<BucketTensor>& tensors, std::size_t count,
                              std::uint64_t piece_elements);

/// `count` equal shards, one behind the other, each of them these tensors.
std::vector<Shard> repeat_shard(const std::vector<BucketTensor>& tensors, std::size_t count,
                                std::uint64_t piece_elements);

std::uint64_t element_count(const BucketTensor& tensor);

}  // namespace gradwire::exchange
