// One parameter's lossy coding over the steps of a training: feedback, selection, values, body.
// In: its gradient of each step.
// Out: the body that is sent, and in the end what is kept of the rest.
// Assumes: a caller keeps one coder a parameter and rank, keyed by a name that lasts. Not for use
// by two threads at once.
#pragma once

#include <optional>
#include <string>

#include "lossy/method/recipe.h"

namespace gradwire::lossy {

/// Memory that coders of one thread share; keeps its capacity.
struct CoderMemory {
  CodeMemory codes;
  BodyMemory body;
  SelectScratch select;
  Coded coded;
  std::vector<float> gathered;
  lossless::EncoderMemory exact;
  DecodeMemory decode;
  Selected decoded;
};

/// What a step knows beside the gradient.
struct CoderStep {
  std::uint64_t step = 0;        ///< from 0, the same on all ranks
  std::optional<double> keep{};  ///< in place of the recipe's
  feedback::StepFacts facts{};
};

/// One way that a tensor goes.
class TensorCoder {
 public:
  /// For a parameter of this shape. `rank` of `world` makes draws that differ by rank where they
  /// have to.
  TensorCoder(const Recipe& recipe, std::string name, std::vector<std::uint64_t> shape,
              unsigned rank, unsigned world);

  /// Whether the tensor goes exactly in this step.
  bool is_dense(std::uint64_t step) const noexcept;

  /// Appends the body of what is sent of a gradient; `dtype` is that of the tensor. What is not
  /// sent is kept once `commit` is called. With a dense step, or where a gradient that is not
  /// finite may pass, the body is an exact one. Throws invalid_argument, which names the tensor and
  /// the element, for a gradient that is not finite; the state is then as it was.
  BodyBytes encode(std::span<const float> gradient, DType dtype, const CoderStep& step, BodyEnd end,
                   CoderMemory& memory, Bytes& out);
  /// What was encoded has reached all ranks: it is taken from what is kept. Without it, all is
  /// kept, the gradient included. The next `encode` does it by itself.
  void commit();
  /// Nothing was received: the gradient stays in what is kept.
  void discard() noexcept;

  /// To be called with the mean of a tensor that went exactly: momentum, where the recipe has its
  /// own. In place. The momentum is kept once `commit` is called, so that all ranks keep the same.
  void finish_dense(std::span<float> mean);

  Bytes save() const;
  /// Throws as Feedback::load does, changing nothing.
  void load(ByteSpan bytes);
  /// The state for a new number of ranks: see Feedback::merge.
  static TensorCoder merge(std::span<const TensorCoder* const> old, unsigned new_world,
                           unsigned rank);

  const std::string& name() const noexcept { return name_; }
  std::span<const std::uint64_t> shape() const noexcept { return shape_; }
  std::size_t elements() const noexcept { return feedback_.elements(); }
  /// Whether it goes exactly in all steps.
  bool is_exact() const noexcept { return recipe_.is_dense(shape_); }
  /// Elements that a step should send.
  std::size_t asked(const CoderStep& step) const noexcept;
  const feedback::Feedback& state() const noexcept { return feedback_; }

 private:
  enum class Pending : std::uint8_t { nothing, all, some };

  std::uint64_t seed_of(std::uint64_t step, bool shared) const noexcept;
  void select_elements(std::span<const float> values, const CoderStep& step, CoderMemory& memory);
  std::span<const float> gather(std::span<const float> values, CoderMemory& memory) const;
  [[noreturn]] void refuse(std::span<const float> gradient) const;
  BodyBytes encode_exact(std::span<const float> gradient, DType dtype, BodyEnd end,
                         CoderMemory& memory, Bytes& out) const;

  Recipe recipe_;
  std::string name_;
  std::vector<std::uint64_t> shape_;
  unsigned rank_, world_;
  std::uint64_t name_hash_;
  feedback::Feedback feedback_;
  SidcoState sidco_;
  std::vector<float> dense_momentum_, next_momentum_;  ///< of exact means; the step's
  Pending pending_ = Pending::nothing;
  Indices sent_;               ///< of the last step
  std::vector<float> values_;  ///< what receivers decode of them
};

}  // namespace gradwire::lossy
