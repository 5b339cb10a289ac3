#include "exchange/lossy_owners.h"

#include "base/fail.h"
#include "exchange/timer.h"

namespace gradwire::exchange {
namespace {

constexpr std::size_t kSlack = 16;  ///< readable bytes that a decoder wants behind a body

lossy::TensorCoder::Range range_of(const LossyPart& part) {
  return {static_cast<std::size_t>(part.begin), static_cast<std::size_t>(part.n)};
}

ByteSpan next_body(ByteReader& in) {
  return in.bytes("body", static_cast<std::size_t>(in.count("body length", in.left())));
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

std::vector<lossy::TensorCoder::Range> LossyOwners::owned_of(
    const lossy::TensorCoder& coder) const {
  std::vector<lossy::TensorCoder::Range> owned;
  for (const LossyPiece& piece : shards_[rank_])
    for (const LossyPart& part : piece.parts)
      if (part.coder == &coder) owned.push_back(range_of(part));
  return owned;
}

std::span<const float> LossyOwners::gradient_of(const LossyPart& part) {
  return as_floats(work_.data + part.first * element_size(work_.dtype), work_.dtype,
                   static_cast<std::size_t>(part.n), room_);
}

void LossyOwners::begin() {
  const Timer timer(work_.stats.encode_s);
  for (const LossyPart& tensor : tensors_)
    tensor.coder->begin_parts(gradient_of(tensor), work_.step, owned_of(*tensor.coder));
}

void LossyOwners::append(const Bytes& body, Bytes& payload) const {
  ByteWriter out(payload);
  out.varint(body.size());
  out.bytes(body);
}

Bytes LossyOwners::encode(unsigned owner, std::size_t k) {
  const Timer timer(work_.stats.encode_s);
  Bytes payload;
  for (const LossyPart& part : shards_[owner][k].parts) {
    body_.clear();
    const lossy::BodyBytes bytes = part.coder->encode_part(
        range_of(part), gradient_of(part), work_.dtype, work_.step, work_.memory, body_);
    append(body_, payload);
    count(bytes, body_, work_.stats.lossy);
    if (lossy::is_lossy_body(body_)) work_.stats.lossy.asked += part.n;
    if (owner != rank_) work_.stats.to_owners.original += part.n * element_size(work_.dtype);
  }
  return payload;
}

void LossyOwners::arrive(unsigned rank, std::size_t k, ByteSpan payload) {
  Waiting& waiting = waiting_[k];
  if (waiting.payloads.empty()) {
    waiting.payloads.resize(shards_.size());
    waiting.payloads[rank_] = encode(rank_, k);
    waiting.payloads[rank_].resize(waiting.payloads[rank_].size() + kSlack);
    waiting.arrived = 1;
  }
  if (rank != rank_) {
    Bytes& kept = waiting.payloads[rank];
    kept.assign(payload.begin(), payload.end());
    kept.resize(payload.size() + kSlack);
    ++waiting.arrived;
  }
  if (waiting.arrived < shards_.size()) return;
  const LossyPiece& piece = shards_[rank_][k];
  Bytes mean = add_piece(piece, waiting);
  waiting_.erase(k);
  const std::size_t size = mean.size();
  mean.resize(size + kSlack);
  place(piece, ByteSpan(mean).first(size));
  mean.resize(size);
  means_.emplace(k, std::move(mean));
}

Bytes LossyOwners::add_piece(const LossyPiece& piece, const Waiting& waiting) {
  const Timer timer(work_.stats.decode_s);
  std::vector<ByteReader> readers;
  for (const Bytes& payload : waiting.payloads)
    readers.emplace_back(ByteSpan(payload).first(payload.size() - kSlack));
  Bytes means;
  for (const LossyPart& part : piece.parts) {
    const std::uint64_t n = part.n;
    sum_.begin(work_.dtype, {&n, 1}, static_cast<std::size_t>(n),
               part.coder->is_dense(work_.step.step));
    for (ByteReader& in : readers) {
      const std::size_t at = in.offset();
      sum_.add(next_body(in), at);
    }
    body_.clear();
    part.coder->encode_mean(range_of(part), sum_.mean(), work_.dtype, work_.step, work_.memory,
                            body_);
    append(body_, means);
    work_.stats.from_owners.original += (shards_.size() - 1) * n * element_size(work_.dtype);
  }
  for (const ByteReader& in : readers) in.expect_end("piece");
  return means;
}

void LossyOwners::place(const LossyPiece& piece, ByteSpan payload) {
  const Timer timer(work_.stats.decode_s);
  ByteReader in(payload);
  for (const LossyPart& part : piece.parts) {
    const std::uint64_t n = part.n;
    placed_.begin(work_.dtype, {&n, 1}, static_cast<std::size_t>(n), true);
    const std::size_t at = in.offset();
    placed_.add(next_body(in), at);
    from_floats(placed_.mean(), work_.dtype, work_.data + part.first * element_size(work_.dtype));
  }
  in.expect_end("piece");
}

void LossyOwners::run_alone() {
  for (std::size_t k = 0; k < shards_[rank_].size(); ++k) arrive(rank_, k, {});
}

}  // namespace gradwire::exchange
