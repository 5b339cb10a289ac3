#include "lossy/method/coder.h"

#include <algorithm>
#include <cmath>

#include "base/clones.h"
#include "base/fail.h"
#include "base/hash.h"
#include "lossy/codec/elements.h"

namespace gradwire::lossy {
namespace {

using feedback::FeedbackKind;

feedback::FeedbackOptions feedback_of(const Recipe& recipe, unsigned world, bool is_dense) {
  feedback::FeedbackOptions options = recipe.feedback;
  options.world = world;
  if (is_dense) options.kind = FeedbackKind::none;
  return options;
}

/// Every parameter starts with another factor, the same on all ranks.
LowRankOptions low_rank_of(const Recipe& recipe, std::uint64_t name_hash) {
  LowRankOptions options = recipe.low_rank;
  options.seed = name_hash;
  return options;
}

GRADWIRE_CLONES void multiply(float* values, std::size_t n, float factor) noexcept {
  for (std::size_t i = 0; i < n; ++i) values[i] *= factor;
}

}  // namespace

TensorCoder::TensorCoder(const Recipe& recipe, std::string name, std::vector<std::uint64_t> shape,
                         unsigned rank, unsigned world)
    : recipe_(recipe),
      name_(std::move(name)),
      shape_(std::move(shape)),
      rank_(rank),
      world_(world),
      name_hash_(hash64(bytes_of(name_))),
      feedback_(feedback_of(recipe, world, recipe.is_dense(shape_)), name_, shape_) {
  if (recipe.way == Way::low_rank && !recipe.is_dense(shape_))
    low_rank_.emplace(low_rank_of(recipe, name_hash_), name_, shape_);
}

bool TensorCoder::is_dense(std::uint64_t step) const noexcept {
  return recipe_.is_dense_step(step) || recipe_.is_dense(shape_);
}

std::uint64_t TensorCoder::seed_of(std::uint64_t step, bool shared) const noexcept {
  const std::uint64_t common = splitmix(name_hash_ ^ splitmix(step));
  return shared ? common : splitmix(common + 1 + rank_);
}

void TensorCoder::refuse(std::span<const float> gradient, std::size_t first) const {
  const auto found = std::ranges::find_if(gradient, [](float v) { return !std::isfinite(v); });
  if (found == gradient.end())
    fail(ErrorKind::invalid_argument, "{}: gradient and what is kept of earlier ones overflow",
         name_);
  fail(ErrorKind::invalid_argument,
       "{}: element {} of the gradient is {}; nan=pass sends such tensors exactly", name_,
       static_cast<std::ptrdiff_t>(first) + (found - gradient.begin()), *found);
}

void TensorCoder::select_elements(std::span<const float> values, const CoderStep& step,
                                  CoderMemory& memory) {
  SelectOptions options = recipe_.select;
  if (options.selector == Selector::all) return;
  options.count = asked(step);
  options.seed = seed_of(step.step, options.selector == Selector::random_k);
  select(values, options, sidco_, memory.select, sent_);
}

std::span<const float> TensorCoder::chosen_values(std::span<const float> values,
                                                  CoderMemory& memory) const {
  if (recipe_.select.selector == Selector::all) return values;
  memory.gathered.resize(sent_.size());
  for (std::size_t i = 0; i < sent_.size(); ++i) memory.gathered[i] = values[sent_[i]];
  if (recipe_.scaled && !sent_.empty())
    multiply(
        memory.gathered.data(), sent_.size(),
        static_cast<float>(static_cast<double>(values.size()) / static_cast<double>(sent_.size())));
  return memory.gathered;
}

BodyBytes TensorCoder::encode_exact(std::span<const float> gradient,
                                    std::span<const std::uint64_t> shape, DType dtype, BodyEnd end,
                                    CoderMemory& memory, Bytes& out) const {
  memory.coded.symbols.resize(gradient.size() * element_size(dtype));
  from_floats(gradient, dtype, memory.coded.symbols);
  CompressOptions options;
  options.checksum = end != BodyEnd::none && end != BodyEnd::bare;
  const std::size_t before = out.size();
  lossless::encode_tensor({dtype, shape, memory.coded.symbols}, options, true, memory.exact, out);
  const std::uint64_t bytes = out.size() - before;
  return {
      .elements = gradient.size(), .selected = gradient.size(), .values = bytes, .whole = bytes};
}

BodyBytes TensorCoder::encode(std::span<const float> gradient, DType dtype, const CoderStep& step,
                              BodyEnd end, CoderMemory& memory, Bytes& out) {
  commit();
  if (is_dense(step.step)) return encode_exact(gradient, shape_, dtype, end, memory, out);
  const auto values = feedback_.before(gradient, step.facts);
  if (!values) {
    if (recipe_.non_finite == NonFinite::refuse) refuse(gradient, 0);
    return encode_exact(gradient, shape_, dtype, end, memory, out);
  }
  select_elements(*values, step, memory);
  const std::span<const float> chosen = chosen_values(*values, memory);
  const bool shared = recipe_.select.selector == Selector::random_k;
  if (!code_values(chosen, recipe_.values, {seed_of(step.step, false), 0}, memory.codes,
                   memory.coded))
    refuse(chosen, 0);
  const bool all = recipe_.select.selector == Selector::all;
  Outline outline{.dtype = dtype, .dims = shape_};
  if (!all) {
    outline.selection = shared ? Selection::drawn : Selection::gaps;
    outline.indices = sent_;
    outline.seed = seed_of(step.step, true);
  }
  const BodyBytes bytes = write_body(outline, memory.coded, end, out.size(), memory.body, out);
  if (!has_feedback()) return bytes;
  values_.resize(chosen.size());
  restore_values(memory.coded.rule, memory.coded.symbols, memory.coded.scales, values_);
  pending_ = all ? Pending::all : Pending::some;
  return bytes;
}

std::size_t TensorCoder::asked(const CoderStep& step) const noexcept {
  if (recipe_.select.selector == Selector::all) return elements();
  if (recipe_.select.selector == Selector::threshold)
    return sent_.size();  // no number is asked for
  return count_for_keep(step.keep.value_or(recipe_.keep_at(step.step)), elements());
}

void TensorCoder::commit() {
  if (pending_ == Pending::all) feedback_.after(values_);
  if (pending_ == Pending::some) feedback_.after(sent_, values_);
  if (!server_pending_.empty()) server_error_.resize(elements(), 0.0F);
  for (const auto& [part, error] : server_pending_)
    std::ranges::copy(error, server_error_.begin() + static_cast<std::ptrdiff_t>(part.first));
  low_rank_before_.reset();
  if (!next_momentum_.empty()) dense_momentum_.swap(next_momentum_);
  discard();
}

void TensorCoder::discard() noexcept {
  pending_ = Pending::nothing;
  server_pending_.clear();
  if (low_rank_before_) low_rank_ = std::move(low_rank_before_);
  low_rank_before_.reset();
  next_momentum_.clear();
}

void TensorCoder::finish_dense(std::span<float> mean) {
  if (recipe_.feedback.kind != FeedbackKind::dgc || recipe_.feedback.momentum == 0) return;
  dense_momentum_.resize(mean.size(), 0.0F);
  next_momentum_.resize(mean.size());
  const float m = recipe_.feedback.momentum;
  for (std::size_t i = 0; i < mean.size(); ++i) {
    const float u = m * dense_momentum_[i] + mean[i];
    next_momentum_[i] = std::isfinite(u) ? u : dense_momentum_[i];
    mean[i] = recipe_.feedback.nesterov ? m * u + mean[i] : u;
  }
}

}  // namespace gradwire::lossy
