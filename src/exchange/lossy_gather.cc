#include "exchange/lossy_gather.h"

#include "exchange/timer.h"

namespace gradwire::exchange {
namespace {

constexpr std::size_t kSlack = 16;  ///< readable bytes that a decoder wants behind a body

}  // namespace

void count(const lossy::BodyBytes& bytes, ByteSpan body, LossyBytes& total) {
  if (!lossy::is_lossy_body(body)) {
    total.exact += bytes.whole;
    return;
  }
  total.elements += bytes.elements;
  total.selected += bytes.selected;
  total.index += bytes.index;
  total.values += bytes.values + bytes.scales;
  total.frames += bytes.whole - bytes.index - bytes.values - bytes.scales;
}

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
  const std::size_t width = element_size(work_.dtype);
  const auto n = static_cast<std::size_t>(part.n);
  body_.clear();
  const std::span<const float> gradient =
      as_floats(work_.data + part.first * width, work_.dtype, n, room_);
  const lossy::BodyBytes bytes = part.coder->encode(gradient, work_.dtype, work_.step,
                                                    lossy::BodyEnd::none, work_.memory, body_);
  ByteWriter out(payload);
  out.varint(body_.size());
  out.bytes(body_);
  count(bytes, body_, work_.stats.lossy);
  work_.stats.to_owners.original += (world_ - 1) * n * width;
  if (lossy::is_lossy_body(body_)) work_.stats.lossy.asked += part.coder->asked(work_.step);
}

/// Adds a piece once it has come from all ranks, this one's own included.
void LossyGather::arrive(unsigned rank, std::size_t k, ByteSpan payload) {
  Waiting& waiting = waiting_[k];
  waiting.payloads.resize(world_);
  Bytes& kept = waiting.payloads[rank];
  kept.assign(payload.begin(), payload.end());
  kept.resize(payload.size() + kSlack);
  if (++waiting.arrived < world_) return;
  const Timer timer(work_.stats.decode_s);
  add_piece(pieces_[k], waiting);
  waiting_.erase(k);
}

void LossyGather::add_piece(const LossyPiece& piece, const Waiting& waiting) {
  std::vector<ByteReader> readers;
  for (const Bytes& payload : waiting.payloads)
    readers.emplace_back(ByteSpan(payload).first(payload.size() - kSlack));
  const std::size_t width = element_size(work_.dtype);
  for (const LossyPart& part : piece.parts) {
    const bool is_exact = part.coder->is_dense(work_.step.step);
    sum_.begin(work_.dtype, part.coder->shape(), static_cast<std::size_t>(part.n), is_exact);
    for (ByteReader& in : readers) {
      const auto length = static_cast<std::size_t>(in.count("body length", in.left()));
      const std::size_t at = in.offset();
      sum_.add(in.bytes("body", length), at);
    }
    const std::span<float> mean = sum_.mean();
    if (is_exact) part.coder->finish_dense(mean);
    from_floats(mean, work_.dtype, work_.data + part.first * width);
  }
  for (const ByteReader& in : readers) in.expect_end("piece");
}

}  // namespace gradwire::exchange
