#include "exchange/lossy_gather.h"

#include "exchange/timer.h"

namespace gradwire::exchange {

LossyGather::LossyGather(const LossyWork& work, const std::vector<LossyPiece>& pieces,
                         unsigned rank, unsigned world)
    : work_(work),
      pieces_(pieces),
      rank_(rank),
      world_(world),
      shared_(world - 1),
      sum_(work.recipe.majority, work.memory.decode, work.memory.decoded) {}

Bytes LossyGather::encode(unsigned, std::size_t k) {
  return shared_.get(k, [&] {
    Bytes payload = encode_piece(k);
    arrive(rank_, k, payload);
    return payload;
  });
}

void LossyGather::take(unsigned peer, std::size_t k, ByteSpan payload) { arrive(peer, k, payload); }

void LossyGather::run_alone() {
  for (std::size_t k = 0; k < pieces_.size(); ++k) arrive(rank_, k, encode_piece(k));
}

Bytes LossyGather::encode_piece(std::size_t k) {
  const Timer timer(work_.stats.encode_s);
  Bytes payload;
  for (const LossyPart& part : pieces_[k].parts) encode_part(part, payload);
  return payload;
}

void LossyGather::encode_part(const LossyPart& part, Bytes& payload) {
  body_.clear();
  const lossy::BodyBytes bytes =
      part.coder->encode(work_.gradient(part, room_), work_.dtype, work_.step, lossy::BodyEnd::none,
                         work_.memory, body_);
  append_body(body_, bytes, part.coder->asked(work_.step), work_.stats.lossy, payload);
  work_.stats.to_owners.original += (world_ - 1) * work_.bytes(part);
}

/// Adds a piece once it has come from all ranks, this one's own included.
void LossyGather::arrive(unsigned rank, std::size_t k, ByteSpan payload) {
  if (!waiting_[k].take(rank, world_, payload)) return;
  const Timer timer(work_.stats.decode_s);
  add_piece(pieces_[k], waiting_[k]);
  waiting_.erase(k);
}

void LossyGather::add_piece(const LossyPiece& piece, const PiecePayloads& payloads) {
  std::vector<ByteReader> readers = payloads.readers();
  for (const LossyPart& part : piece.parts) {
    const bool is_exact = work_.is_exact(part);
    sum_.begin(work_.dtype, part.coder->shape(), static_cast<std::size_t>(part.n), is_exact);
    for (ByteReader& in : readers) sum_.add_next(in);
    const std::span<float> mean = sum_.mean();
    if (is_exact) part.coder->finish_dense(mean);
    work_.put(mean, part);
  }
  for (const ByteReader& in : readers) in.expect_end("piece");
}

}  // namespace gradwire::exchange
