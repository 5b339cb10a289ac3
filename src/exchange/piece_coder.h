// A piece as bytes: its parts' tensor bodies, one behind the other, each coded as its group asks.
// In: a piece and the memory of its elements, which lie together.
// Out: a payload; and back.
// Assumes: both sides cut the bucket alike. 16 bytes behind a payload can be read.
#pragma once

#include "exchange/pieces.h"
#include "lossless/tensor_encoder.h"

namespace gradwire::exchange {

class PieceCoder {
 public:
  /// `options.compress` for group 0, `options.groups` for those behind it.
  PieceCoder(DType dtype, const ExchangeOptions& options);

  /// Adds what it has encoded to the parts' `groups`, one a group, `receivers` times.
  void encode(const Piece& piece, const std::uint8_t* elements, std::size_t receivers,
              Bytes& payload, std::vector<GroupBytes>& groups);
  /// Throws `corrupt` for a payload that is not what encode() makes of such a piece.
  void decode(const Piece& piece, ByteSpan payload, std::uint8_t* elements);
  /// Most bytes of a piece's payload.
  std::size_t bound(const Piece& piece) const noexcept;
  std::size_t width() const noexcept { return width_; }
  std::size_t groups() const noexcept { return options_.size(); }

 private:
  DType dtype_;
  std::size_t width_;
  std::vector<CompressOptions> options_;  ///< by group
  lossless::EncoderMemory memory_;
  lossless::Scratch scratch_;
  Bytes body_;
};

}  // namespace gradwire::exchange
