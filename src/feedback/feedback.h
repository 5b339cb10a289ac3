// What a parameter keeps between steps of what was not sent.
// In: the gradient of a step, then what was sent of it.
// Out: the values to send from; the state, saved, loaded, or merged for another number of ranks.
// Assumes: f32; the caller keeps one Feedback a parameter (or shard) and keys it by a name that
// lasts. Not for use by two threads at once. No random numbers, no communication.
// The values to send from lie in the state itself: a step that fails between `before` and `after`
// has sent nothing and keeps all. So memory is one buffer (error feedback) or two (DGC).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace gradwire::feedback {

constexpr std::size_t kMaxDimensions = 64;

enum class FeedbackKind : std::uint8_t {
  none = 0,   ///< x = g
  error = 1,  ///< x = g + ratio * decay * e; e = x - decoded
  dgc =
      2,  ///< u = m u + g; v = ratio * decay * v + u; x = v (Lin et al. 2018, momentum correction)
};

struct FeedbackOptions {
  FeedbackKind kind = FeedbackKind::error;
  float decay = 1;        ///< error, dgc: what of the error is kept a step, 0 to 1
  float momentum = 0.9F;  ///< dgc: m, 0 or more and below 1
  bool nesterov = false;  ///< dgc: u = m (u + g); v = v + u + g
  bool mask = true;       ///< dgc: momentum factor masking, u = 0 where something was sent
  float clip_norm = 0;    ///< dgc: gradients are scaled to at most clip_norm / sqrt(world); 0: none
  unsigned world = 1;     ///< dgc: ranks, for the clipping
};

/// What a step knows beside the gradient.
struct StepFacts {
  /// Learning rate of the last step / of this one, for errors in units of the update: use 1 when
  /// the rate is applied after the exchange and errors are to keep the unit of gradients.
  float learning_rate_ratio = 1;
  /// Norm that clipping compares, of all parameters together say; by default this gradient's.
  std::optional<double> gradient_norm{};
};

/// Throws invalid_argument and names the option.
void check_options(const FeedbackOptions& options);

class Feedback {
 public:
  /// Zero state for a parameter of this shape (empty: a scalar). `name` is for messages. Throws
  /// invalid_argument for options out of range and limit for too many dimensions or elements.
  Feedback(const FeedbackOptions& options, std::string name, std::vector<std::uint64_t> shape);

  /// The values of this step to send from, one an element; valid until the next call, except that
  /// with kind none they are `gradient` itself. Nothing if the gradient or a result is NaN or
  /// infinite: then the state is as it was. Throws invalid_argument if the number of elements is
  /// another or a fact is not finite or negative.
  [[nodiscard]] std::optional<std::span<const float>> before(std::span<const float> gradient,
                                                             const StepFacts& facts = {});

  /// What receivers decode of what was sent, one value an element; zero is nothing sent. Each of
  /// the three subtracts it from what is kept and throws invalid_argument, changing nothing, if
  /// the elements do not fit.
  void after(std::span<const float> decoded);
  /// Of the elements at `indices`, each at most once, the values `decoded` were sent.
  void after(std::span<const std::uint32_t> indices, std::span<const float> decoded);
  /// The elements at `indices` were sent exactly.
  void after(std::span<const std::uint32_t> indices);

  /// The state as bytes: version, kind, shape, buffers.
  Bytes save() const;
  /// Replaces the state by a saved one. Throws, changing nothing: invalid_argument if it is of
  /// another kind or shape, unsupported for another version, truncated, corrupt.
  void load(ByteSpan bytes);

  /// What is kept, not sent yet; empty with kind none. For norms, tests and merging.
  std::span<const float> error() const noexcept { return error_; }
  /// DGC's u; empty otherwise.
  std::span<const float> momentum() const noexcept { return momentum_; }
  const FeedbackOptions& options() const noexcept { return options_; }
  std::size_t elements() const noexcept { return elements_; }

  /// The state of rank `rank` of a new world, from those of all ranks of the old one in order: the
  /// sum of ranks rank, rank + new_world, ... of the old. With more ranks than before the new ones
  /// start from zero. So errors (and momenta) of the new ranks have the sum of the old ones', up
  /// to one rounding a sum. Throws invalid_argument if states differ in kind or shape, there is
  /// none, or rank is not below new_world.
  static Feedback merge(std::span<const Feedback* const> old, unsigned new_world, unsigned rank);

 private:
  void check_elements(std::size_t n, const char* what) const;
  void check_indices(std::span<const std::uint32_t> indices) const;
  float clip_factor(std::span<const float> gradient, const StepFacts& facts) const;

  FeedbackOptions options_;
  std::string name_;
  std::vector<std::uint64_t> shape_;
  std::size_t elements_;
  std::vector<float> error_;     ///< after `before`: x; after `after`: what is kept
  std::vector<float> momentum_;  ///< DGC's u
};

}  // namespace gradwire::feedback
