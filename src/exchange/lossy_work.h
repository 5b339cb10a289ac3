// What the ways of a lossy mean have in common: a bucket's memory, bodies in payloads, a piece's
// payloads from all ranks.
// In: tensors and runs of a bucket; bodies.
// Out: their floats; payloads of pieces, and back.
// Assumes: what is given by reference outlives it.
#pragma once

#include <span>
#include <vector>

#include "exchange/lossy_pieces.h"
#include "gradwire/exchange.h"
#include "lossy/codec/elements.h"

namespace gradwire::exchange {

/// What a lossy exchange works on.
struct LossyWork {
  const lossy::Recipe& recipe;
  lossy::CoderMemory& memory;
  DType dtype;
  std::uint8_t* data;
  lossy::CoderStep step;
  ExchangeStats& stats;

  std::size_t bytes(const LossyPart& part) const noexcept {
    return static_cast<std::size_t>(part.n) * element_size(dtype);
  }
  std::span<std::uint8_t> elements(const LossyPart& part) const noexcept {
    return {data + part.first * element_size(dtype), bytes(part)};
  }
  /// Valid as long as `room` is left alone.
  std::span<const float> gradient(const LossyPart& part, std::vector<float>& room) const {
    return lossy::as_floats(elements(part), dtype, room);
  }
  void put(std::span<const float> mean, const LossyPart& part) const {
    lossy::from_floats(mean, dtype, elements(part));
  }
  bool is_exact(const LossyPart& part) const { return part.coder->is_dense(step.step); }
};

/// Appends a body with its length in front, and counts its bytes; `asked`: the elements that were
/// to be sent, if it is a lossy one.
void append_body(ByteSpan body, const lossy::BodyBytes& bytes, std::uint64_t asked,
                 LossyBytes& total, Bytes& payload);
/// The same of a mean, which does not count.
void append_body(ByteSpan body, Bytes& payload);
/// Throws corrupt or truncated where there is none.
ByteSpan next_body(ByteReader& in);

/// The payloads of one piece, by rank, each with the bytes behind it that a decoder reads.
class PiecePayloads {
 public:
  bool empty() const noexcept { return arrived_ == 0; }
  /// True once all ranks' have come.
  bool take(unsigned rank, unsigned world, ByteSpan payload);
  std::vector<ByteReader> readers() const;

 private:
  std::vector<Bytes> payloads_;
  std::size_t arrived_ = 0;
};

}  // namespace gradwire::exchange
