#include "exchange/piece_coder.h"

#include <algorithm>

#include "base/fail.h"
#include "lossless/tensor_decoder.h"

namespace gradwire::exchange {

PieceCoder::PieceCoder(DType dtype, const ExchangeOptions& options)
    : dtype_(dtype), width_(element_size(dtype)), options_{options.compress} {
  options_.insert(options_.end(), options.groups.begin(), options.groups.end());
  for (CompressOptions& group : options_) group.checksum = false;  // the piece has one
}

void PieceCoder::encode(const Piece& piece, const std::uint8_t* elements, std::size_t receivers,
                        Bytes& payload, std::vector<GroupBytes>& groups) {
  ByteWriter out(payload);
  for (const Part& part : piece.parts) {
    body_.clear();
    const std::size_t before = payload.size();
    const auto bytes = static_cast<std::size_t>(part.n) * width_;
    lossless::encode_tensor({dtype_, part.shape, {elements, bytes}}, options_[part.group], true,
                            memory_, body_);
    out.varint(body_.size());
    out.bytes(body_);
    groups[part.group].original += receivers * bytes;
    groups[part.group].payload += receivers * (payload.size() - before);
    elements += bytes;
  }
}

std::size_t PieceCoder::bound(const Piece& piece) const noexcept {
  constexpr std::size_t kLengthField = 9;
  std::size_t bytes = 0;
  for (const Part& part : piece.parts)
    bytes += kLengthField + lossless::encoded_bound(dtype_, part.n);
  return bytes;
}

void PieceCoder::decode(const Piece& piece, ByteSpan payload, std::uint8_t* elements) {
  ByteReader in(payload);
  for (const Part& part : piece.parts) {
    const auto bytes = static_cast<std::size_t>(part.n) * width_;
    const auto length = static_cast<std::size_t>(in.count("body length", in.left()));
    const std::size_t at = in.offset();
    const frame::TensorBody body =
        frame::read_tensor_body(in.bytes("body", length), 0, at, false, bytes);
    if (body.header.dtype != dtype_ || !std::ranges::equal(body.header.dims, part.shape)) {
      fail(ErrorKind::corrupt, "body at byte {}: another dtype or shape than the bucket's", at);
    }
    lossless::TensorDecoder(body, false).decode_all({elements, bytes}, scratch_);
    elements += bytes;
  }
  in.expect_end("piece");
}

}  // namespace gradwire::exchange
