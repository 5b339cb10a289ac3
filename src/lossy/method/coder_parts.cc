// A coder's tensor in parts, to and from the owners of their sums.
#include <algorithm>
#include <cmath>

#include "base/fail.h"
#include "base/magnitude.h"
#include "lossy/method/coder.h"

namespace gradwire::lossy {
namespace {

using feedback::FeedbackKind;

/// Draws of means are others than those of gradients.
constexpr std::uint64_t kMeans = 0x6d65616e73;

}  // namespace

/// Owners change when buckets are cut anew. What this rank has kept of a mean counts once there, so
/// as a part of its own gradient it counts `world` times. Returns what stays with its owner.
std::vector<float> TensorCoder::fold_server_error(std::span<const Range> owned,
                                                  const CoderStep& step,
                                                  std::vector<float>& gradient) const {
  std::vector<float> kept(server_error_.size(), 0.0F);
  for (const Range& part : owned)
    std::copy_n(server_error_.begin() + static_cast<std::ptrdiff_t>(part.first), part.n,
                kept.begin() + static_cast<std::ptrdiff_t>(part.first));
  const float factor = static_cast<float>(world_) * error_ratio(step);
  for (std::size_t i = 0; i < kept.size(); ++i)
    gradient[i] += factor * (server_error_[i] - kept[i]);
  return kept;
}

float TensorCoder::error_ratio(const CoderStep& step) const noexcept {
  return step.facts.learning_rate_ratio * recipe_.feedback.decay;
}

void TensorCoder::begin_parts(std::span<const float> gradient, const CoderStep& step,
                              std::span<const Range> owned) {
  commit();
  goes_exactly_ = false;
  if (is_dense(step.step) || !has_feedback()) return;
  std::vector<float> whole, kept;
  if (!server_error_.empty()) {
    whole.assign(gradient.begin(), gradient.end());
    kept = fold_server_error(owned, step, whole);
    gradient = whole;
  }
  goes_exactly_ = !feedback_.before(gradient, step.facts);
  if (!goes_exactly_) server_error_ = std::move(kept);
  if (goes_exactly_ && recipe_.non_finite == NonFinite::refuse) refuse(gradient, 0);
  values_.resize(elements());
}

BodyBytes TensorCoder::write_part(const Range& part, DType dtype, std::uint64_t seed,
                                  std::span<const float> values, CoderMemory& memory, Bytes& out) {
  const std::uint64_t n = part.n;
  if (!code_values(values, recipe_.values, {seed, part.first}, memory.codes, memory.coded)) {
    if (recipe_.non_finite == NonFinite::refuse) refuse(values, part.first);
    return encode_exact(values, {&n, 1}, dtype, BodyEnd::none, memory, out);
  }
  const Outline outline{.dtype = dtype, .dims = {&n, 1}};
  return write_body(outline, memory.coded, BodyEnd::none, out.size(), memory.body, out);
}

BodyBytes TensorCoder::encode_part(const Range& part, std::span<const float> gradient, DType dtype,
                                   const CoderStep& step, CoderMemory& memory, Bytes& out) {
  const std::uint64_t n = part.n;
  if (is_dense(step.step) || goes_exactly_)
    return encode_exact(gradient, {&n, 1}, dtype, BodyEnd::none, memory, out);
  const std::span<const float> values =
      has_feedback() ? feedback_.error().subspan(part.first, part.n) : gradient;
  const BodyBytes bytes = write_part(part, dtype, seed_of(step.step, false), values, memory, out);
  if (!has_feedback()) return bytes;
  restore_values(memory.coded.rule, memory.coded.symbols, memory.coded.scales,
                 std::span(values_).subspan(part.first, part.n));
  pending_ = Pending::all;
  return bytes;
}

BodyBytes TensorCoder::encode_mean(const Range& part, std::span<const float> mean, DType dtype,
                                   const CoderStep& step, CoderMemory& memory, Bytes& out) {
  const std::uint64_t n = part.n;
  if (is_dense(step.step)) return encode_exact(mean, {&n, 1}, dtype, BodyEnd::none, memory, out);
  const std::uint64_t seed = seed_of(step.step, false) ^ kMeans;
  if (!recipe_.server_feedback) return write_part(part, dtype, seed, mean, memory, out);
  std::vector<float> values(mean.begin(), mean.end());
  const float ratio = error_ratio(step);
  if (!server_error_.empty())
    for (std::size_t i = 0; i < part.n; ++i) values[i] += ratio * server_error_[part.first + i];
  if (!all_finite(values)) return write_part(part, dtype, seed, mean, memory, out);
  const BodyBytes bytes = write_part(part, dtype, seed, values, memory, out);
  std::vector<float> sent(part.n);
  restore_values(memory.coded.rule, memory.coded.symbols, memory.coded.scales, sent);
  for (std::size_t i = 0; i < part.n; ++i) values[i] -= sent[i];
  server_pending_.emplace_back(part, std::move(values));
  return bytes;
}

}  // namespace gradwire::lossy
