// A coder's matrix as factors.
#include "base/fail.h"
#include "lossy/method/coder.h"

namespace gradwire::lossy {

using feedback::FeedbackKind;

std::span<const float> TensorCoder::begin_low_rank(std::span<const float> gradient,
                                                   const CoderStep& step) {
  commit();
  const auto values = feedback_.before(gradient, step.facts);
  if (!values) refuse(gradient, 0);
  low_rank_before_ = low_rank_;
  const auto factor = low_rank_->begin(*values);
  if (!factor) refuse(*values, 0);
  return *factor;
}

std::span<const float> TensorCoder::proceed_low_rank(std::span<const float> gradient,
                                                     std::span<const float> mean) {
  const bool has_feedback = feedback_.options().kind != FeedbackKind::none;
  const auto factor = low_rank_->proceed(has_feedback ? feedback_.error() : gradient, mean);
  if (!factor)
    fail(ErrorKind::invalid_argument, "{}: the mean of the factors is not finite", name_);
  return *factor;
}

void TensorCoder::finish_low_rank(std::span<const float> mean, std::span<float> out) {
  if (feedback_.options().kind != FeedbackKind::none) {
    values_.resize(elements());
    low_rank_->decode_own(values_);
    pending_ = Pending::all;
  }
  if (!low_rank_->finish(mean))
    fail(ErrorKind::invalid_argument, "{}: the mean of the factors is not finite", name_);
  low_rank_->decode(out);
}

}  // namespace gradwire::lossy
