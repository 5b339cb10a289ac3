// The scaled predictor along the taps of kernels, element by element.
// In: a run, and what each element leaves behind.
// Out: the guess of the next element.
// Assumes: as scaled.h.
#pragma once

#include <vector>

#include "stages/predict/scaled.h"

namespace gradwire::predict {

/// For kernels whose taps lie apart: walks along a run and knows, for its next element, what the
/// previous tap left behind.
class TapWalk {
 public:
  explicit TapWalk(const ScaledRun& run)
      : inner_(static_cast<std::size_t>(run.parameters->inner)),
        taps_(run.parameters->taps),
        columns_(static_cast<std::size_t>(run.parameters->columns)),
        halved_(run.parameters->halved) {
    const std::uint64_t start = run.first + run.parameters->origin;
    if (run.parameters->has_scales) {
      row_scale_ = run.grid->row_scales.data() + start / columns_;
      column_scales_ = run.grid->column_scales.data();
    }
    column_ = static_cast<std::size_t>(start % columns_);
    tap_ = run.first / inner_ % taps_;
    offset_ = static_cast<std::size_t>(run.first % inner_);
    if (inner_ > 1) left_.resize(run.n);
    enter();
  }
  std::int32_t prediction() const noexcept {
    if (row_scale_ == nullptr) return 0;
    return (*row_scale_ + column_scales_[column_] + halved_) >> halved_;
  }
  /// Half of the previous tap's residual, and its sign.
  std::int32_t carried() const noexcept { return (previous_.q + 1) >> 1; }
  unsigned guess() const noexcept { return previous_.sign; }
  /// What the element leaves behind; then moves on to the next.
  void push(std::int32_t q, unsigned sign) noexcept {
    previous_ = {q, sign};
    if (inner_ > 1) left_[at_] = previous_;
    ++at_;
    if (++column_ == columns_) {
      column_ = 0;
      if (row_scale_ != nullptr) ++row_scale_;
    }
    if (++offset_ == inner_) {
      offset_ = 0;
      if (++tap_ == taps_) tap_ = 0;
    }
    enter();
  }

 private:
  struct Left {
    std::int32_t q;
    unsigned sign;
  };
  /// Looks up the previous tap of the element that comes next; with inner 1 it is the last one
  /// pushed.
  void enter() noexcept {
    if (tap_ == 0 || at_ < inner_) {
      previous_ = {0, 0};
    } else if (inner_ > 1 && at_ < left_.size()) {
      previous_ = left_[at_ - inner_];
    }
  }

  std::size_t inner_;
  std::uint64_t taps_;
  std::size_t columns_;
  std::int32_t halved_;
  const std::int16_t* row_scale_ = nullptr;
  const std::int16_t* column_scales_ = nullptr;
  std::size_t column_ = 0, offset_ = 0, at_ = 0;
  std::uint64_t tap_ = 0;
  Left previous_{0, 0};
  std::vector<Left> left_;  ///< of all elements, where inner is above 1
};

}  // namespace gradwire::predict
