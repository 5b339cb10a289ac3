// A coder's values for methods that add without decoding, and its matrix as factors.
#include "base/fail.h"
#include "lossy/method/coder.h"

namespace gradwire::lossy {

std::span<const float> TensorCoder::take(std::span<const float> gradient, const CoderStep& step) {
  commit();
  const auto values = feedback_.before(gradient, step.facts);
  if (!values) refuse(gradient, 0);
  return *values;
}

std::span<const std::uint32_t> TensorCoder::choose(std::span<const float> values,
                                                   const CoderStep& step, CoderMemory& memory) {
  select_elements(values, step, memory);
  return sent_;
}

void TensorCoder::note_sent(std::span<const float> decoded) {
  if (!has_feedback()) return;
  values_.assign(decoded.begin(), decoded.end());
  pending_ = Pending::all;
}

void TensorCoder::note_chosen_sent(std::span<const float> decoded) {
  note_sent(decoded);
  if (pending_ == Pending::all) pending_ = Pending::some;
}

std::span<const float> TensorCoder::begin_low_rank(std::span<const float> gradient,
                                                   const CoderStep& step) {
  const std::span<const float> values = take(gradient, step);
  low_rank_before_ = low_rank_;
  const auto factor = low_rank_->begin(values);
  if (!factor) refuse(values, 0);
  return *factor;
}

std::span<const float> TensorCoder::proceed_low_rank(std::span<const float> gradient,
                                                     std::span<const float> mean) {
  const auto factor = low_rank_->proceed(values(gradient), mean);
  if (!factor)
    fail(ErrorKind::invalid_argument, "{}: the mean of the factors is not finite", name_);
  return *factor;
}

void TensorCoder::finish_low_rank(std::span<const float> mean, std::span<float> out) {
  if (has_feedback()) {
    low_rank_->decode_own(out);
    note_sent(out);
  }
  if (!low_rank_->finish(mean))
    fail(ErrorKind::invalid_argument, "{}: the mean of the factors is not finite", name_);
  low_rank_->decode(out);
}

}  // namespace gradwire::lossy
