#include "lossy/low_rank/low_rank.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/clones.h"
#include "base/fail.h"
#include "lossy/low_rank/orthogonalise.h"

namespace gradwire::lossy {
namespace {

constexpr auto kInvalid = ErrorKind::invalid_argument;
/// Draws of a step, one a column; those of the first factor come before them.
constexpr std::uint64_t kStepDraws = kMaxMatrixRank;

/// Whether all are finite and below 2^120: then 128 of them add up, and a row of up to 256 times a
/// row of an orthonormal basis, of length 1 at most, is finite.
GRADWIRE_CLONES bool are_usable(const float* values, std::size_t n) noexcept {
  constexpr auto kBound = std::bit_cast<std::int32_t>(0x1p120F);
  std::int32_t found = 0;
  for (std::size_t i = 0; i < n; ++i)
    found |= (std::bit_cast<std::int32_t>(values[i]) & 0x7fffffff) >= kBound ? 1 : 0;
  return found == 0;
}

bool usable(std::span<const float> values) noexcept {
  return are_usable(values.data(), values.size());
}

unsigned clipped(unsigned matrix_rank, MatrixView view) noexcept {
  return static_cast<unsigned>(std::min<std::size_t>({matrix_rank, view.rows, view.columns}));
}

void check_matrix_rank(unsigned matrix_rank) {
  if (matrix_rank < 1 || matrix_rank > kMaxMatrixRank)
    fail(kInvalid, "low_rank: matrix_rank must be 1 to {}, not {}", kMaxMatrixRank, matrix_rank);
}

}  // namespace

void check_options(const LowRankOptions& options) {
  if (options.kind > LowRankKind::acpsgd)
    fail(kInvalid, "low_rank: kind {} is none of powersgd, acpsgd", static_cast<int>(options.kind));
  check_matrix_rank(options.matrix_rank);
  if (!(options.min_compression >= 0 && std::isfinite(options.min_compression)))
    fail(kInvalid, "low_rank: min_compression must be finite and at least 0, not {}",
         options.min_compression);
}

MatrixView matrix_of(std::span<const std::uint64_t> shape) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::ptrdiff_t>::max() / sizeof(float);
  const std::uint64_t rows = shape.empty() ? 1 : shape[0];
  std::uint64_t columns = 1;
  for (std::size_t d = 1; d < shape.size(); ++d) {
    if (shape[d] != 0 && columns > kMost / shape[d])
      fail(ErrorKind::limit, "low_rank: the shape has more than {} elements", kMost);
    columns *= shape[d];
  }
  if (columns != 0 && rows > kMost / columns)
    fail(ErrorKind::limit, "low_rank: the shape has more than {} elements", kMost);
  return {static_cast<std::size_t>(rows), static_cast<std::size_t>(columns)};
}

bool is_dense(std::span<const std::uint64_t> shape, const LowRankOptions& options) {
  check_options(options);
  const MatrixView view = matrix_of(shape);
  if (shape.size() < 2 || view.size() == 0) return true;
  const double rows = static_cast<double>(view.rows);
  const double columns = static_cast<double>(view.columns);
  const double sent = (rows + columns) * clipped(options.matrix_rank, view);
  return rows * columns < double{options.min_compression} * sent;
}

LowRank::LowRank(const LowRankOptions& options, std::string name,
                 std::span<const std::uint64_t> shape)
    : options_(options), name_(std::move(name)), view_(matrix_of(shape)) {
  check_options(options_);
  constexpr std::uint64_t kLongest = std::numeric_limits<std::uint32_t>::max();
  if (view_.size() == 0)
    fail(kInvalid, "low_rank of '{}': a matrix of {} x {} has no factors", name_, view_.rows,
         view_.columns);
  if (view_.rows > kLongest || view_.columns > kLongest)
    fail(ErrorKind::limit, "low_rank of '{}': a matrix of {} x {}, sides of at most {} allowed",
         name_, view_.rows, view_.columns, kLongest);
  matrix_rank_ = clipped(options_.matrix_rank, view_);
  warm_.resize(matrix_rank_ * view_.columns);
  draw_columns(options_.seed, 0, view_.columns, warm_);
}

/// The factor that a step starts from is the right one, Q; with acpsgd in turns.
bool LowRank::starts_right() const noexcept {
  return options_.kind == LowRankKind::powersgd || steps_ % 2 == 0;
}

std::size_t LowRank::round_values(unsigned round) const noexcept {
  return matrix_rank_ * side(starts_right() == (round % 2 == 1));
}

void LowRank::check_stage(bool fits, const char* call) const {
  if (!fits)
    fail(kInvalid, "low_rank of '{}': {} is not due; a step is begin, {}decode_own, finish, decode",
         name_, call, rounds() == 2 ? "proceed, " : "");
}

void LowRank::check_count(std::size_t n, std::size_t expected, const char* what) const {
  if (n != expected)
    fail(kInvalid, "low_rank of '{}': {} {}, {} expected", name_, n, what, expected);
}

/// Makes the basis orthonormal and the values' own factor from it.
std::optional<std::span<const float>> LowRank::project(std::span<const float> values) {
  orthogonalise(basis_, side(basis_is_right_), options_.seed, (steps_ + 1) * kStepDraws);
  own_.resize(matrix_rank_ * side(!basis_is_right_));
  const auto product = basis_is_right_ ? multiply : multiply_transposed;
  product(values.data(), view_, matrix_rank_, basis_.data(), own_.data());
  if (usable(own_)) return own_;
  stage_ = Stage::idle;
  return std::nullopt;
}

std::optional<std::span<const float>> LowRank::begin(std::span<const float> values) {
  check_count(values.size(), view_.size(), "values");
  basis_ = warm_;
  basis_is_right_ = starts_right();
  stage_ = rounds() == 2 ? Stage::first : Stage::last;
  return project(values);
}

std::optional<std::span<const float>> LowRank::proceed(std::span<const float> values,
                                                       std::span<const float> mean) {
  check_stage(stage_ == Stage::first, "proceed");
  check_count(values.size(), view_.size(), "values");
  check_count(mean.size(), own_.size(), "values of a mean");
  if (!usable(mean)) {
    stage_ = Stage::idle;
    return std::nullopt;
  }
  basis_.assign(mean.begin(), mean.end());
  basis_is_right_ = !basis_is_right_;
  stage_ = Stage::last;
  return project(values);
}

bool LowRank::finish(std::span<const float> mean) {
  check_stage(stage_ == Stage::last, "finish");
  check_count(mean.size(), own_.size(), "values of a mean");
  const bool is_usable = usable(mean);
  stage_ = is_usable ? Stage::finished : Stage::idle;
  if (!is_usable) return false;
  warm_.assign(mean.begin(), mean.end());
  ++steps_;
  return true;
}

void LowRank::expand_with(const std::vector<float>& factor, std::span<float> out) const {
  check_count(out.size(), view_.size(), "places for decoded values");
  const std::vector<float>& left = basis_is_right_ ? factor : basis_;
  const std::vector<float>& right = basis_is_right_ ? basis_ : factor;
  expand(left.data(), right.data(), view_, matrix_rank_, out.data());
}

void LowRank::decode_own(std::span<float> out) const {
  check_stage(stage_ == Stage::last, "decode_own");
  expand_with(own_, out);
}

void LowRank::decode(std::span<float> out) const {
  check_stage(stage_ == Stage::finished, "decode");
  expand_with(warm_, out);
}

void LowRank::set_matrix_rank(unsigned matrix_rank) {
  check_matrix_rank(matrix_rank);
  const std::size_t length = side(starts_right());
  const std::size_t kept = std::min<std::size_t>(matrix_rank_, clipped(matrix_rank, view_));
  options_.matrix_rank = matrix_rank;
  matrix_rank_ = clipped(matrix_rank, view_);
  warm_.resize(matrix_rank_ * length);
  draw_columns(options_.seed, kept, length, std::span(warm_).subspan(kept * length));
  stage_ = Stage::idle;
}

}  // namespace gradwire::lossy
