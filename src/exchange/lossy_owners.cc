#include "exchange/lossy_owners.h"

#include "base/fail.h"
#include "exchange/timer.h"
#include "frame/tensor_body.h"

namespace gradwire::exchange {
namespace {

using lossy::TensorCoder;

TensorCoder::Range range_of(const LossyPart& part) {
  return {static_cast<std::size_t>(part.begin), static_cast<std::size_t>(part.n)};
}

}  // namespace

LossyOwners::LossyOwners(const LossyWork& work, const std::vector<LossyPart>& tensors,
                         const LossyShards& shards, unsigned rank)
    : work_(work),
      tensors_(tensors),
      shards_(shards),
      rank_(rank),
      sum_(work.recipe.majority, work.memory.decode, work.memory.decoded),
      placed_(false, work.memory.decode, work.memory.decoded) {}

std::map<const TensorCoder*, std::vector<TensorCoder::Range>> LossyOwners::owned() const {
  std::map<const TensorCoder*, std::vector<TensorCoder::Range>> owned;
  for (const LossyPiece& piece : shards_[rank_])
    for (const LossyPart& part : piece.parts) owned[part.coder].push_back(range_of(part));
  return owned;
}

void LossyOwners::begin() {
  const Timer timer(work_.stats.encode_s);
  auto owned = this->owned();
  for (const LossyPart& tensor : tensors_)
    tensor.coder->begin_parts(work_.gradient(tensor, room_), work_.step, owned[tensor.coder]);
}

Bytes LossyOwners::encode(unsigned owner, std::size_t k) {
  const Timer timer(work_.stats.encode_s);
  Bytes payload;
  for (const LossyPart& part : shards_[owner][k].parts) {
    body_.clear();
    const lossy::BodyBytes bytes = part.coder->encode_part(
        range_of(part), work_.gradient(part, room_), work_.dtype, work_.step, work_.memory, body_);
    append_body(body_, bytes, part.n, work_.stats.lossy, payload);
    if (owner != rank_) work_.stats.to_owners.original += work_.bytes(part);
  }
  return payload;
}

void LossyOwners::arrive(unsigned rank, std::size_t k, ByteSpan payload) {
  PiecePayloads& waiting = waiting_[k];
  const auto world = static_cast<unsigned>(shards_.size());
  bool is_complete = false;
  if (waiting.empty()) is_complete = waiting.take(rank_, world, encode(rank_, k));
  if (rank != rank_) is_complete = waiting.take(rank, world, payload);
  if (!is_complete) return;
  const LossyPiece& piece = shards_[rank_][k];
  Bytes mean = add_piece(piece, waiting);
  waiting_.erase(k);
  const std::size_t size = mean.size();
  mean.resize(size + frame::kTrailerSlack);
  place(piece, ByteSpan(mean).first(size));
  mean.resize(size);
  means_.emplace(k, std::move(mean));
}

Bytes LossyOwners::add_piece(const LossyPiece& piece, const PiecePayloads& payloads) {
  const Timer timer(work_.stats.decode_s);
  std::vector<ByteReader> readers = payloads.readers();
  Bytes means;
  for (const LossyPart& part : piece.parts) {
    sum_.begin(work_.dtype, {&part.n, 1}, static_cast<std::size_t>(part.n), work_.is_exact(part));
    for (ByteReader& in : readers) sum_.add_next(in);
    body_.clear();
    part.coder->encode_mean(range_of(part), sum_.mean(), work_.dtype, work_.step, work_.memory,
                            body_);
    append_body(body_, means);
    work_.stats.from_owners.original += (shards_.size() - 1) * work_.bytes(part);
  }
  for (const ByteReader& in : readers) in.expect_end("piece");
  return means;
}

void LossyOwners::place(const LossyPiece& piece, ByteSpan payload) {
  const Timer timer(work_.stats.decode_s);
  ByteReader in(payload);
  for (const LossyPart& part : piece.parts) {
    placed_.begin(work_.dtype, {&part.n, 1}, static_cast<std::size_t>(part.n), true);
    placed_.add_next(in);
    work_.put(placed_.mean(), part);
  }
  in.expect_end("piece");
}

void LossyOwners::run_alone() {
  for (std::size_t k = 0; k < shards_[rank_].size(); ++k) arrive(rank_, k, {});
}

}  // namespace gradwire::exchange
