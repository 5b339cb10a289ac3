// Lossy methods: on tensors and files, and between ranks. A method is named by a spec string, such
// as "dgc(keep=0.001)"; gradwire/methods.h lists them with their parameters.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gradwire/compress.h"
#include "gradwire/exchange.h"

namespace gradwire {

namespace exchange {
struct LossyParameters;  // of the library itself
}

/// True for a spec that names a lossy method, whatever its parameters; false for "lossless", "none"
/// and unknown names.
bool is_lossy_method(std::string_view spec) noexcept;

/// The spec with its keys in order and defaults left out. Throws Error(invalid_argument) for a spec
/// that names no lossy method or has parameters that are unknown, out of range, or do not compose.
std::string canonical_method(std::string_view spec);

// --- tensors and files -----------------------------------------------------------------

/// What a tensor lost, and where its bytes went.
struct LossyReport {
  std::uint64_t elements = 0;
  std::uint64_t selected = 0;     ///< elements that are sent; all of an exact tensor
  std::uint64_t index_bytes = 0;  ///< that say which
  std::uint64_t value_bytes = 0;  ///< of their values, scales included
  double relative_l2 = 0;         ///< norm of the error / norm of the tensor; 0 for zeros
  double largest_error = 0;       ///< of an element, absolute
  double sign_agreement = 1;      ///< share of the elements that are not 0 whose sign is kept
  double norm = 0;                ///< of the tensor's finite elements; 0 for other dtypes
  std::uint64_t nonzero = 0;      ///< elements that are not 0; 0 for other dtypes

  /// Makes this the report of two tensors, or of all those of a file.
  void add(const LossyReport& other) noexcept;
};

/// Compress one tensor (f32, bf16, f16) by a lossy method into one frame, as the first step of a
/// training with one rank would send it: some tensors go exactly, such as those of one dimension
/// where the method has dense_vectors=true, and then the frame is an exact one. `decompress` gives
/// the decoded values. `name` is what random draws depend on. Throws Error(invalid_argument) as
/// canonical_method does, for another dtype, and for NaN or infinity unless the method passes them
/// on.
std::vector<std::uint8_t> compress_lossy(const TensorView& tensor, std::string_view spec,
                                         std::string_view name = {}, LossyReport* report = nullptr,
                                         bool checksum = true);

// --- between ranks ---------------------------------------------------------------------

/// What a learned method's network is trained on: the values of all ranks at the places of a step,
/// of one bucket.
struct LearningSample {
  unsigned leader = 0;  ///< the rank whose largest elements these are
  unsigned world = 1;
  std::vector<float> values;  ///< (world, places), divided by the root mean square of the leader's
};

/// What one rank keeps of a model's parameters between steps, keyed by their names: errors,
/// momenta, learned thresholds. Buckets of any cut refer to it.
class LossyState {
 public:
  /// Throws Error(invalid_argument) as canonical_method does.
  LossyState(std::string_view spec, unsigned rank, unsigned world);
  ~LossyState();
  LossyState(LossyState&&) noexcept;
  LossyState& operator=(LossyState&&) noexcept;

  const std::string& spec() const noexcept;  ///< canonical
  std::uint64_t step() const noexcept;       ///< steps that have ended
  /// Ends a step. `applied`: the means were used on all ranks. Otherwise what was sent stays in
  /// what is kept, so that nothing is lost: the gradients of that step go with those of the next.
  void end_step(bool applied);
  /// All parameters' state and the number of steps.
  std::vector<std::uint8_t> save() const;
  /// Replaces the state. Throws, changing nothing, Error(invalid_argument) where the spec is
  /// another, Error(unsupported | truncated | corrupt) for bytes that are no state. Parameters get
  /// theirs when a bucket names them; a shape that differs is refused then.
  void load(std::span<const std::uint8_t> bytes);
  /// The state of a rank of a new number of ranks from those of all ranks of the old one, in order:
  /// the sum over ranks of what is kept stays what it was.
  static std::vector<std::uint8_t> merge(std::span<const std::vector<std::uint8_t>> old,
                                         unsigned rank, unsigned world);

  // Of a learned method (lgc); others want nothing.

  /// It has no network: the exchanges of a step leave samples.
  bool wants_samples() const noexcept;
  /// The mean of all ranks' codes is decoded (mode=ring).
  bool learns_ring() const noexcept;
  /// It has none, and the steps in which one was to be trained have ended. Steps go on without.
  bool wants_network() const noexcept;
  /// Those of the last step, on every rank the same; leaves none.
  std::vector<LearningSample> take_samples();
  /// Codes go by this network from now on (docs/exchange.md 9.4): to be called on all ranks,
  /// between steps. Throws Error(corrupt | truncated | unsupported | limit) for bytes that are
  /// none, Error(invalid_argument) where the method has no network; nothing is changed then.
  void set_network(std::span<const std::uint8_t> bytes);
  /// Nothing if there is none.
  std::span<const std::uint8_t> network() const noexcept;

 private:
  friend class LossyBucket;
  std::unique_ptr<exchange::LossyParameters> state_;
};

/// A parameter in a bucket.
struct LossyTensor {
  std::string name;                  ///< lasts over steps, buckets and restarts
  std::vector<std::uint64_t> shape;  ///< in memory order
  bool exact = false;                ///< goes exactly in all steps, whatever the method
};

/// What a step knows beside the gradients.
struct LossyStep {
  std::optional<double> keep = {};  ///< in place of the method's schedule; alike on all ranks
  float learning_rate_ratio = 1;    ///< last step's rate / this one's
  std::optional<double> gradient_norm = {};  ///< of the whole model, for clipping
};

/// Lossy means of a bucket's tensors over all ranks. Tensors lie densely one behind the other.
class LossyBucket {
 public:
  /// `state` outlives the bucket. dtype f32, bf16 or f16. Throws Error(invalid_argument) for
  /// others, for shapes that cannot be, a name in two shapes, a name given twice, and one that is
  /// exact here and was not in the state, or the other way round.
  LossyBucket(LossyState& state, std::uint32_t index, DType dtype,
              std::vector<LossyTensor> tensors);
  ~LossyBucket();
  LossyBucket(LossyBucket&&) noexcept;
  LossyBucket& operator=(LossyBucket&&) noexcept;

  std::uint64_t bytes() const noexcept;
  unsigned rank() const noexcept;
  unsigned world() const noexcept;
  /// What all ranks must share before `reduce` with these facts, a line for each thing; a transport
  /// may compare it.
  std::string agreement(const LossyStep& facts = {}) const;
  /// Forgets what earlier steps have agreed on, after a step that failed; all ranks together.
  void reset();
  /// Starts the exchange of a step's gradients; in the end `data`, which must outlive it, holds the
  /// mean that all ranks have decoded, the same bits on each. A rank alone gets what it sends.
  std::unique_ptr<Exchange> reduce(std::span<std::uint8_t> data, std::uint32_t step,
                                   const LossyStep& facts = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gradwire
