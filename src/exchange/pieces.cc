#include "exchange/pieces.h"

#include <algorithm>
#include <numeric>

namespace gradwire::exchange {
namespace {

constexpr std::uint64_t kLeastPart = 1024;

/// A tensor's parts: as many whole rows as a piece has room for; rows that are longer than a piece
/// are cut themselves.
void cut_tensor(const BucketTensor& tensor, std::uint64_t first, std::uint64_t piece_elements,
                std::vector<Part>& parts) {
  const std::uint64_t n = element_count(tensor);
  if (n == 0) return;
  if (n <= piece_elements) {
    parts.push_back({first, n, tensor.shape, false, tensor.group});
    return;
  }
  const std::uint64_t row = tensor.shape.size() < 2 ? 1 : n / tensor.shape[0];
  const bool whole_rows = row <= piece_elements && tensor.shape.size() >= 2;
  const std::uint64_t step = whole_rows ? piece_elements / row * row : piece_elements;
  for (std::uint64_t at = 0; at < n; at += step) {
    Part part{first + at, std::min(step, n - at), {}, at > 0, tensor.group};
    if (whole_rows) {
      part.shape = tensor.shape;
      part.shape[0] = part.n / row;
    } else {
      part.shape = {part.n};
    }
    parts.push_back(std::move(part));
  }
}

void append(Shard& shard, Part part, std::uint64_t piece_elements) {
  if (shard.empty() || shard.back().elements + part.n > piece_elements) shard.emplace_back();
  Piece& piece = shard.back();
  piece.elements += part.n;
  if (part.follows && !piece.parts.empty()) {  // one body is smaller than two
    piece.parts.back().n += part.n;
    piece.parts.back().shape[0] += part.shape[0];
  } else {
    piece.parts.push_back(std::move(part));
  }
}

}  // namespace

std::uint64_t element_count(const BucketTensor& tensor) {
  return std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::uint64_t{1},
                         std::multiplies<>());
}

std::vector<Shard> cut_bucket(const std::vector<BucketTensor>& tensors, std::size_t count,
                              std::uint64_t piece_elements) {
  std::uint64_t total = 0;
  for (const BucketTensor& tensor : tensors) total += element_count(tensor);
  // Parts are at most a quarter of a shard, so that shards differ by little; much smaller ones
  // would cost more than they balance.
  const std::uint64_t part_elements = std::clamp<std::uint64_t>(
      total / count / 4, std::min(kLeastPart, piece_elements), piece_elements);
  std::vector<Part> parts;
  std::uint64_t first = 0;
  for (const BucketTensor& tensor : tensors) {
    cut_tensor(tensor, first, count == 1 ? piece_elements : part_elements, parts);
    first += element_count(tensor);
  }
  std::vector<Shard> shards(count);
  for (Part& part : parts) {
    // A part belongs to the shard that its middle lies in.
    const std::uint64_t middle = part.first + part.n / 2;
    const auto owner = static_cast<std::size_t>(
        std::min<std::uint64_t>(middle / ((total + count - 1) / count), count - 1));
    append(shards[owner], std::move(part), piece_elements);
  }
  return shards;
}

std::vector<Shard> repeat_shard(const std::vector<BucketTensor>& tensors, std::size_t count,
                                std::uint64_t piece_elements) {
  const Shard first = std::move(cut_bucket(tensors, 1, piece_elements)[0]);
  std::uint64_t elements = 0;
  for (const Piece& piece : first) elements += piece.elements;
  std::vector<Shard> shards(count, first);
  for (std::size_t k = 0; k < count; ++k)
    for (Piece& piece : shards[k])
      for (Part& part : piece.parts) part.first += k * elements;
  return shards;
}

}  // namespace gradwire::exchange
