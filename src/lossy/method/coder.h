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
  // In parts, for methods that send every element (docs/exchange.md 9.2): `begin_parts`, then each
  // part once, in any order.

  /// A run of a tensor's elements.
  struct Range {
    std::size_t first = 0, n = 0;
  };
  /// Takes the whole gradient over, where there is feedback; without, it is looked at part by part.
  /// `owned`: the parts whose sums this rank makes; what it keeps of sums of others goes with its
  /// own gradient. Throws as encode does.
  void begin_parts(std::span<const float> gradient, const CoderStep& step,
                   std::span<const Range> owned);
  /// Appends the body of a part, as of a tensor of one dimension. `gradient` is the part's own.
  BodyBytes encode_part(const Range& part, std::span<const float> gradient, DType dtype,
                        const CoderStep& step, CoderMemory& memory, Bytes& out);
  /// Appends the body of the mean of a part that this rank owns, and with `server_feedback` keeps
  /// what it lacks.
  BodyBytes encode_mean(const Range& part, std::span<const float> mean, DType dtype,
                        const CoderStep& step, CoderMemory& memory, Bytes& out);

  // Summed as they are: `take`, for sparse ones `choose`, then what was sent, decoded.

  /// The values to send from. `gradient` itself without feedback. Throws as encode does.
  std::span<const float> take(std::span<const float> gradient, const CoderStep& step);
  /// The same once more, in the same step.
  std::span<const float> values(std::span<const float> gradient) const noexcept {
    return has_feedback() ? feedback_.error() : gradient;
  }
  bool has_feedback() const noexcept {
    return feedback_.options().kind != feedback::FeedbackKind::none;
  }
  /// The elements that the recipe selects of them, ascending.
  std::span<const std::uint32_t> choose(std::span<const float> values, const CoderStep& step,
                                        CoderMemory& memory);
  std::span<const std::uint32_t> chosen() const noexcept { return sent_; }
  /// Takes elements, ascending, that another rank has chosen.
  void set_chosen(std::span<const std::uint32_t> indices) {
    sent_.assign(indices.begin(), indices.end());
  }
  /// Those elements of the values; scaled, where the recipe says so.
  std::span<const float> chosen_values(std::span<const float> values, CoderMemory& memory) const;
  /// What receivers decode of all elements, or of the chosen ones.
  void note_sent(std::span<const float> decoded);
  void note_chosen_sent(std::span<const float> decoded);
  /// For draws of a step: shared by ranks, or this rank's own.
  std::uint64_t seed_of(std::uint64_t step, bool shared) const noexcept;
  /// Throws for a gradient that is not finite. `first`: the element of the tensor it begins at.
  [[noreturn]] void refuse(std::span<const float> gradient, std::size_t first) const;

  // Low rank: begin, then with two rounds proceed, then finish (lossy/low_rank/low_rank.h).

  /// The step's first factor, to be averaged. Throws as encode does.
  std::span<const float> begin_low_rank(std::span<const float> gradient, const CoderStep& step);
  /// The second factor from the mean of the first. `gradient` as above.
  std::span<const float> proceed_low_rank(std::span<const float> gradient,
                                          std::span<const float> mean);
  /// Writes the mean of the values from the mean of the last factor.
  void finish_low_rank(std::span<const float> mean, std::span<float> out);
  /// Floats of a round's factor in this step.
  std::size_t low_rank_values(unsigned round) const noexcept {
    return low_rank_->round_values(round);
  }

  /// What was encoded has reached all ranks: it is taken from what is kept. Without it, all is
  /// kept, the gradient included. The next `encode` does it by itself.
  void commit();
  /// Nothing was received: the gradient stays in what is kept.
  void discard() noexcept;

  /// To be called with the mean of a tensor that went exactly: momentum, where the recipe has its
  /// own. In place. The momentum is kept once `commit` is called, so that all ranks keep the same;
  /// where it is not finite, that of the step before is.
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

  void select_elements(std::span<const float> values, const CoderStep& step, CoderMemory& memory);
  void take_server_errors(std::span<const TensorCoder* const> old, unsigned rank);
  std::vector<float> fold_server_error(std::span<const Range> owned, const CoderStep& step,
                                       std::vector<float>& gradient) const;
  float error_ratio(const CoderStep& step) const noexcept;
  BodyBytes write_part(const Range& part, DType dtype, std::uint64_t seed,
                       std::span<const float> values, CoderMemory& memory, Bytes& out);
  BodyBytes encode_exact(std::span<const float> gradient, std::span<const std::uint64_t> shape,
                         DType dtype, BodyEnd end, CoderMemory& memory, Bytes& out) const;

  Recipe recipe_;
  std::string name_;
  std::vector<std::uint64_t> shape_;
  unsigned rank_, world_;
  std::uint64_t name_hash_;
  feedback::Feedback feedback_;
  SidcoState sidco_;
  std::vector<float> dense_momentum_, next_momentum_;  ///< of exact means; the step's
  std::vector<float> server_error_;  ///< of means that this rank has sent, one an element or none
  std::vector<std::pair<Range, std::vector<float>>> server_pending_;
  std::optional<LowRank> low_rank_, low_rank_before_;  ///< now, and where a step began
  Pending pending_ = Pending::nothing;
  bool goes_exactly_ = false;  ///< in this step, in parts: its gradient is not finite
  Indices sent_;               ///< of the last step
  std::vector<float> values_;  ///< what receivers decode of them
};

}  // namespace gradwire::lossy
