// A coder's state as bytes, and dealt out anew.
#include <cmath>

#include "base/fail.h"
#include "lossy/method/coder.h"

namespace gradwire::lossy {
namespace {

constexpr std::uint8_t kVersion = 1;

void write_floats(std::span<const float> values, ByteWriter& out) {
  out.varint(values.size());
  out.bytes(bytes_of(values));
}

/// None, or as many as the tensor has.
std::vector<float> read_buffer(ByteReader& in, const char* field, std::size_t wanted) {
  const std::size_t count = static_cast<std::size_t>(in.varint(field));
  if (count != 0 && count != wanted)
    fail(ErrorKind::invalid_argument, "{}: {} values in the state, the tensor has {}", field, count,
         wanted);
  return read_floats(in, field, count);
}

SidcoState read_sidco(ByteReader& in) {
  constexpr std::uint64_t kMost = 64;  // stages halve, at least, what is left of 2^64 values
  SidcoState state;
  state.stages = static_cast<unsigned>(in.count("stages", kMost));
  state.steps = static_cast<unsigned>(in.count("steps", kMost));
  state.ratio_sum = std::bit_cast<double>(in.u64("ratio_sum"));
  state.correction = std::bit_cast<double>(in.u64("correction"));
  if (!(state.ratio_sum >= 0 && std::isfinite(state.ratio_sum) && state.correction > 0 &&
        std::isfinite(state.correction)))
    fail(ErrorKind::corrupt, "sidco: a ratio of {} and a correction of {} in the state",
         state.ratio_sum, state.correction);
  return state;
}

}  // namespace

Bytes TensorCoder::save() const {
  if (pending_ != Pending::nothing || !server_pending_.empty() || low_rank_before_ ||
      !next_momentum_.empty()) {
    TensorCoder committed = *this;
    committed.commit();
    return committed.save();
  }
  Bytes bytes;
  ByteWriter out(bytes);
  out.u8(kVersion);
  const Bytes kept = feedback_.save();
  out.varint(kept.size());
  out.bytes(kept);
  out.varint(sidco_.stages);
  out.varint(sidco_.steps);
  out.u64(std::bit_cast<std::uint64_t>(sidco_.ratio_sum));
  out.u64(std::bit_cast<std::uint64_t>(sidco_.correction));
  write_floats(dense_momentum_, out);
  write_floats(server_error_, out);
  const Bytes factors = low_rank_ ? low_rank_->save() : Bytes();
  out.varint(factors.size());
  out.bytes(factors);
  return bytes;
}

void TensorCoder::load(ByteSpan bytes) {
  ByteReader in(bytes);
  const unsigned version = in.u8("version");
  if (version != kVersion)
    fail(ErrorKind::unsupported, "{}: state of version {}, known is {}", name_, version, kVersion);
  TensorCoder fresh(recipe_, name_, shape_, rank_, world_);
  fresh.feedback_.load(in.bytes("feedback", static_cast<std::size_t>(in.varint("feedback"))));
  fresh.sidco_ = read_sidco(in);
  fresh.dense_momentum_ = read_buffer(in, "momentum", elements());
  fresh.server_error_ = read_buffer(in, "server error", elements());
  const ByteSpan factors = in.bytes("factors", static_cast<std::size_t>(in.varint("factors")));
  if (fresh.low_rank_) fresh.low_rank_->load(factors);
  in.expect_end("state");
  *this = std::move(fresh);
}

TensorCoder TensorCoder::merge(std::span<const TensorCoder* const> old, unsigned new_world,
                               unsigned rank) {
  if (old.empty()) fail(ErrorKind::invalid_argument, "merge: no state given");
  std::vector<const feedback::Feedback*> parts;
  for (const TensorCoder* coder : old) parts.push_back(&coder->feedback_);
  const TensorCoder& first = *old.front();
  TensorCoder merged(first.recipe_, first.name_, first.shape_, rank, new_world);
  merged.feedback_ = feedback::Feedback::merge(parts, new_world, rank);
  merged.sidco_ = old[rank % old.size()]->sidco_;
  merged.low_rank_ = first.low_rank_;              // as this is
  merged.dense_momentum_ = first.dense_momentum_;  // the same on all ranks
  merged.take_server_errors(old, rank);
  return merged;
}

/// Errors of means go with the first ranks' own: there they count once in `old` ranks' sum.
void TensorCoder::take_server_errors(std::span<const TensorCoder* const> old, unsigned rank) {
  if (rank != 0) return;
  for (const TensorCoder* coder : old) {
    if (coder->server_error_.empty()) continue;
    server_error_.resize(elements(), 0.0F);
    for (std::size_t i = 0; i < elements(); ++i) server_error_[i] += coder->server_error_[i];
  }
}

}  // namespace gradwire::lossy
