// Low-rank steps: a gradient as the product of two thin factors, with a warm start.
// In: one parameter's values of a step, then the means over ranks of the factors that this gave.
// Out: factors to be averaged; what this rank alone sent, decoded; the mean, decoded; the state.
// Assumes: f32. One LowRank a parameter, keyed by a name that lasts, the same options on every
// rank, no two threads at once. No communication: the caller averages, by any all-reduce of floats
// whose result is the same bits on all ranks.
// A step that fails before `finish` changes nothing: `begin` starts it again.
// The state depends on means only, so it is the same on every rank and fits any number of ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "lossy/low_rank/products.h"

namespace gradwire::lossy {

constexpr unsigned kMaxMatrixRank = 256;

enum class LowRankKind : std::uint8_t {
  powersgd,  ///< both factors each step, one after the other (Vogels et al. 2019)
  acpsgd,    ///< one factor a step, in turns, at half the bytes (Zhang et al. 2023)
};

struct LowRankOptions {
  LowRankKind kind = LowRankKind::powersgd;
  unsigned matrix_rank = 4;   ///< columns of a factor, 1 to 256; at most the matrix's shorter side
  float min_compression = 2;  ///< what is divided by less than this is sent dense (`is_dense`)
  std::uint64_t seed = 0;     ///< of the first factor, shared by all ranks
};

/// Throws invalid_argument and names the option.
void check_options(const LowRankOptions& options);

/// A tensor of shape (d0, d1, ...) as a matrix of d0 rows; a vector has one column, a scalar is
/// 1 x 1. Throws limit if sizes overflow.
MatrixView matrix_of(std::span<const std::uint64_t> shape);

/// Whether a tensor is to be sent as it is: one of fewer than two dimensions, an empty one, or one
/// with rows columns / ((rows + columns) matrix_rank) below min_compression.
bool is_dense(std::span<const std::uint64_t> shape, const LowRankOptions& options);

class LowRank {
 public:
  /// `name` is for messages. Throws invalid_argument for options out of range and for an empty
  /// shape, limit for too long a side. Takes any other shape, whatever `is_dense` says.
  LowRank(const LowRankOptions& options, std::string name, std::span<const std::uint64_t> shape);

  /// Averages over ranks in a step, one after the other: 2 with powersgd, 1 with acpsgd.
  unsigned rounds() const noexcept { return options_.kind == LowRankKind::powersgd ? 2 : 1; }

  /// First round of a step: the factor to average over ranks, `round_values(0)` floats, column
  /// after column, valid until the next call that is not const. `values`, one an element in
  /// row-major order, are what is left of earlier steps included. Nothing if a value is NaN or
  /// infinite or a factor reaches 2^120; then the other ranks must give up the step as well.
  /// Throws invalid_argument if the number of values is another.
  [[nodiscard]] std::optional<std::span<const float>> begin(std::span<const float> values);

  /// powersgd, second round: the mean of the first factors and the same values give the second
  /// factor, as above. Nothing, too, if the mean is not finite.
  [[nodiscard]] std::optional<std::span<const float>> proceed(std::span<const float> values,
                                                              std::span<const float> mean);

  /// Floats of round 0 or 1 of the present step.
  std::size_t round_values(unsigned round) const noexcept;

  /// What this rank sent, decoded on its own: the factor of the last round before it is averaged,
  /// times the shared one. This is what error feedback subtracts. Its mean over ranks is `decode`,
  /// so that subtracting either gives the same steps in exact arithmetic; but against `decode`
  /// every rank would keep its gradient's distance from the mean, which nothing ever takes away,
  /// and its error would grow like a random walk. From the last round's factor until `finish`.
  void decode_own(std::span<float> out) const;

  /// Takes the mean of the last round's factors; this ends the step. False, and the state is as
  /// before the step, if the mean is not finite or reaches 2^120.
  [[nodiscard]] bool finish(std::span<const float> mean);

  /// The mean of all ranks' values of the step, approximately. From `finish` until `begin`, on a
  /// state that was neither loaded nor given another matrix_rank since.
  void decode(std::span<float> out) const;

  /// Another number of columns from the next step on, clipped to the shorter side: the last ones
  /// are dropped (the first have the largest singular values) or drawn ones added. On all ranks at
  /// once. Throws invalid_argument, changing nothing, if it is not 1 to 256.
  void set_matrix_rank(unsigned matrix_rank);

  /// The state between steps: version, kind, sides, matrix_rank, steps, factor.
  Bytes save() const;
  /// Replaces the state by a saved one. Throws, changing nothing: invalid_argument if it is of
  /// another kind, shape or matrix_rank, unsupported for another version, truncated, corrupt.
  void load(ByteSpan bytes);

  MatrixView view() const noexcept { return view_; }
  /// Columns of a factor: the option, or the matrix's shorter side if that is less.
  unsigned matrix_rank() const noexcept { return matrix_rank_; }
  std::uint64_t steps() const noexcept { return steps_; }

 private:
  enum class Stage : std::uint8_t { idle, first, last, finished };

  bool starts_right() const noexcept;
  std::size_t side(bool right) const noexcept { return right ? view_.columns : view_.rows; }
  std::optional<std::span<const float>> project(std::span<const float> values);
  void expand_with(const std::vector<float>& factor, std::span<float> out) const;
  void check_stage(bool fits, const char* call) const;
  void check_count(std::size_t n, std::size_t expected, const char* what) const;

  LowRankOptions options_;
  std::string name_;
  MatrixView view_;
  unsigned matrix_rank_;
  std::uint64_t steps_ = 0;
  std::vector<float> warm_;   ///< the last mean: where the next step starts
  std::vector<float> basis_;  ///< orthonormal, the same on all ranks
  std::vector<float> own_;    ///< the values projected on the basis
  bool basis_is_right_ = true;
  Stage stage_ = Stage::idle;
};

}  // namespace gradwire::lossy
