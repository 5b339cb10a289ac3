#include "feedback/feedback.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/fail.h"
#include "base/magnitude.h"
#include "feedback/loops.h"

namespace gradwire::feedback {
namespace {

constexpr auto kInvalid = ErrorKind::invalid_argument;

/// Elements of a shape whose f32 buffer has a size.
std::size_t count_elements(const std::string& name, std::span<const std::uint64_t> shape) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::ptrdiff_t>::max() / sizeof(float);
  if (shape.size() > kMaxDimensions)
    fail(ErrorKind::limit, "feedback of '{}': {} dimensions, at most {} allowed", name,
         shape.size(), kMaxDimensions);
  const bool is_empty = std::ranges::find(shape, 0u) != shape.end();
  std::uint64_t elements = 1;
  for (const std::uint64_t length : shape) {
    if (length > kMost / elements)
      fail(ErrorKind::limit, "feedback of '{}': the shape has more than {} elements", name, kMost);
    elements *= std::max<std::uint64_t>(length, 1);
  }
  return is_empty ? 0 : static_cast<std::size_t>(elements);
}

bool is_finite_and_not_negative(double value) { return value >= 0 && std::isfinite(value); }

}  // namespace

void check_options(const FeedbackOptions& options) {
  if (options.kind > FeedbackKind::dgc)
    fail(kInvalid, "feedback: kind {} is none of none, error, dgc", static_cast<int>(options.kind));
  if (!(options.decay >= 0 && options.decay <= 1))
    fail(kInvalid, "feedback: decay must be 0 to 1, not {}", options.decay);
  if (!(options.momentum >= 0 && options.momentum < 1))
    fail(kInvalid, "feedback: momentum must be at least 0 and below 1, not {}", options.momentum);
  if (!is_finite_and_not_negative(options.clip_norm))
    fail(kInvalid, "feedback: clip_norm must be 0 (none) or more, not {}", options.clip_norm);
  if (options.world == 0) fail(kInvalid, "feedback: world must be at least 1");
}

Feedback::Feedback(const FeedbackOptions& options, std::string name,
                   std::vector<std::uint64_t> shape)
    : options_(options), name_(std::move(name)), shape_(std::move(shape)) {
  check_options(options_);
  elements_ = count_elements(name_, shape_);
  if (options_.kind != FeedbackKind::none) error_.resize(elements_);
  if (options_.kind == FeedbackKind::dgc) momentum_.resize(elements_);
}

void Feedback::check_elements(std::size_t n, const char* what) const {
  if (n != elements_)
    fail(kInvalid, "feedback of '{}': {} of {} elements, the parameter has {}", name_, what, n,
         elements_);
}

void Feedback::check_indices(std::span<const std::uint32_t> indices) const {
  for (const std::uint32_t index : indices)
    if (index >= elements_)
      fail(kInvalid, "feedback of '{}': index {} of a parameter of {} elements", name_, index,
           elements_);
}

float Feedback::clip_factor(std::span<const float> gradient, const StepFacts& facts) const {
  if (options_.clip_norm == 0) return 1;
  const double norm =
      facts.gradient_norm.value_or(std::sqrt(sum_of_squares(gradient.data(), gradient.size())));
  const double most = options_.clip_norm / std::sqrt(static_cast<double>(options_.world));
  return norm > most ? static_cast<float>(most / norm) : 1.0F;
}

std::optional<std::span<const float>> Feedback::before(std::span<const float> gradient,
                                                       const StepFacts& facts) {
  check_elements(gradient.size(), "gradient");
  if (!is_finite_and_not_negative(facts.learning_rate_ratio))
    fail(kInvalid, "feedback of '{}': learning_rate_ratio must be finite and at least 0, not {}",
         name_, facts.learning_rate_ratio);
  if (facts.gradient_norm && !is_finite_and_not_negative(*facts.gradient_norm))
    fail(kInvalid, "feedback of '{}': gradient_norm must be finite and at least 0, not {}", name_,
         *facts.gradient_norm);
  const float keep = facts.learning_rate_ratio * options_.decay;
  switch (options_.kind) {
    case FeedbackKind::none:
      if (!all_finite(gradient)) return std::nullopt;
      return gradient;
    case FeedbackKind::error:
      if (!add_error(gradient.data(), keep, elements_, error_.data())) return std::nullopt;
      return error_;
    case FeedbackKind::dgc: {
      const MomentumStep step = {clip_factor(gradient, facts), options_.momentum, keep,
                                 options_.nesterov};
      if (!add_momentum(gradient.data(), step, elements_, momentum_.data(), error_.data()))
        return std::nullopt;
      return error_;
    }
  }
  return std::nullopt;
}

void Feedback::after(std::span<const float> decoded) {
  check_elements(decoded.size(), "decoded values");
  if (!error_.empty()) subtract(decoded.data(), elements_, error_.data());
  if (!momentum_.empty() && options_.mask) mask(decoded.data(), elements_, momentum_.data());
}

void Feedback::after(std::span<const std::uint32_t> indices, std::span<const float> decoded) {
  if (indices.size() != decoded.size())
    fail(kInvalid, "feedback of '{}': {} decoded values for {} indices", name_, decoded.size(),
         indices.size());
  check_indices(indices);
  if (!error_.empty())
    for (std::size_t k = 0; k < indices.size(); ++k) error_[indices[k]] -= decoded[k];
  if (!momentum_.empty() && options_.mask)
    for (const std::uint32_t index : indices) momentum_[index] = 0;
}

void Feedback::after(std::span<const std::uint32_t> indices) {
  check_indices(indices);
  if (!error_.empty())
    for (const std::uint32_t index : indices) error_[index] = 0;
  if (!momentum_.empty() && options_.mask)
    for (const std::uint32_t index : indices) momentum_[index] = 0;
}

}  // namespace gradwire::feedback
