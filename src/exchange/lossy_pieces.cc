#include "exchange/lossy_pieces.h"

#include <algorithm>

#include "base/fail.h"
#include "exchange/wire.h"

namespace gradwire::exchange {
namespace {

constexpr std::uint64_t kPieceElements = 65536;
/// Runs begin at multiples of this where a quantiser's buckets say nothing else.
constexpr std::uint64_t kAlignment = 256;
constexpr std::size_t kLengthField = 9;

/// Either kind of body: a step or a gradient that is not finite may ask for the exact one.
std::size_t part_bound(const LossyPart& part, const lossy::Recipe& recipe, DType dtype) {
  const std::uint64_t bucket = lossy::bucket_of(recipe.values);
  return kLengthField +
         std::max(lossy::body_bound(part.n, bucket), lossless::encoded_bound(dtype, part.n));
}

std::uint64_t alignment_of(const lossy::Recipe& recipe) {
  const std::uint64_t bucket = lossy::bucket_of(recipe.values);
  return bucket == 0 || bucket > kPieceElements ? kAlignment : bucket;
}

/// The end of a run of `tensor` that starts at its element `begin`: at most a piece long, and near
/// the end of the shard, which is element `end` of the bucket.
std::uint64_t run_end(const LossyPart& tensor, std::uint64_t begin, std::uint64_t end,
                      std::uint64_t alignment) {
  const std::uint64_t piece = std::max(kPieceElements / alignment, std::uint64_t{1}) * alignment;
  std::uint64_t last = std::min(tensor.n, begin + piece);
  if (end < tensor.first + last) {
    const std::uint64_t wanted = end - std::min(end, tensor.first);
    const std::uint64_t rounded = (wanted + alignment - 1) / alignment * alignment;
    last = std::min(last, std::max(rounded, begin + alignment));
  }
  return last;
}

}  // namespace

std::vector<LossyPiece> cut_lossy(const std::vector<LossyPart>& parts, const lossy::Recipe& recipe,
                                  DType dtype) {
  std::vector<LossyPiece> pieces;
  std::uint64_t elements = kPieceElements;
  for (const LossyPart& part : parts) {
    if (elements + part.n > kPieceElements) {
      pieces.emplace_back();
      elements = 0;
    }
    LossyPiece& piece = pieces.back();
    piece.parts.push_back(part);
    piece.bound += part_bound(part, recipe, dtype);
    elements += part.n;
    if (piece.bound > UINT32_MAX / 4)  // two of them may stand in one message
      fail(ErrorKind::limit, "{}: a tensor of {} elements may take {} bytes, at most {} allowed",
           part.coder->name(), part.n, piece.bound, UINT32_MAX / 4);
  }
  return pieces;
}

std::vector<std::vector<LossyPiece>> cut_lossy_shards(const std::vector<LossyPart>& tensors,
                                                      const lossy::Recipe& recipe, DType dtype,
                                                      unsigned world) {
  const std::uint64_t total = tensors.empty() ? 0 : tensors.back().first + tensors.back().n;
  const std::uint64_t alignment = alignment_of(recipe);
  std::vector<std::vector<LossyPart>> runs(world);
  unsigned owner = 0;
  const auto shard_end = [&] {
    return total / world * (owner + 1) + total % world * (owner + 1) / world;
  };
  for (const LossyPart& tensor : tensors) {
    for (std::uint64_t begin = 0; begin < tensor.n;) {
      while (owner + 1 < world && tensor.first + begin >= shard_end()) ++owner;
      const std::uint64_t limit = owner + 1 < world ? shard_end() : total;
      const std::uint64_t end = run_end(tensor, begin, limit, alignment);
      runs[owner].push_back({tensor.coder, tensor.first + begin, end - begin, begin});
      begin = end;
    }
  }
  std::vector<std::vector<LossyPiece>> shards;
  for (const auto& shard : runs) shards.push_back(cut_lossy(shard, recipe, dtype));
  return shards;
}

}  // namespace gradwire::exchange
