#include "exchange/lossy_pieces.h"

#include <algorithm>

#include "base/fail.h"
#include "exchange/wire.h"

namespace gradwire::exchange {
namespace {

constexpr std::uint64_t kPieceElements = 65536;
constexpr std::size_t kLengthField = 9;

/// Either kind of body: a step or a gradient that is not finite may ask for the exact one.
std::size_t part_bound(const LossyPart& part, const lossy::Recipe& recipe, DType dtype) {
  const std::uint64_t bucket = recipe.values ? recipe.values->bucket_values : 0;
  return kLengthField +
         std::max(lossy::body_bound(part.n, bucket), lossless::encoded_bound(dtype, part.n));
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

}  // namespace gradwire::exchange
