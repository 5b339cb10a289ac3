// What the tests of low-rank steps share: matrices, and ranks that average in rank order.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "base/counter_random.h"
#include "error_testing.h"
#include "feedback/feedback.h"
#include "lossy/low_rank/low_rank.h"
#include "lossy/low_rank/orthogonalise.h"

namespace gradwire::lossy {

using testing::refusal;
using Values = std::vector<float>;
using Shape = std::vector<std::uint64_t>;
using enum LowRankKind;
constexpr double kUnit = 0x1p-24;  ///< relative error of one rounding

/// Uniform in [-1, 1), the same on every computer.
inline Values some_values(std::size_t n, std::uint64_t seed) {
  Values values(n);
  draw_columns(seed, 0, n, values);
  return values;
}

/// The sum over k of weights[k] u_k v_k^T with orthonormal u and v: these are its singular values.
inline Values matrix_of_spectrum(MatrixView view, const std::vector<double>& weights,
                                 std::uint64_t seed) {
  Values u(weights.size() * view.rows);
  Values v(weights.size() * view.columns);
  orthogonalise(u, view.rows, seed, 0);  // of zero columns: drawn ones
  orthogonalise(v, view.columns, seed, weights.size());
  Values matrix(view.size());
  for (std::size_t i = 0; i < view.rows; ++i)
    for (std::size_t j = 0; j < view.columns; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < weights.size(); ++k)
        sum += weights[k] * double{u[k * view.rows + i]} * double{v[k * view.columns + j]};
      matrix[i * view.columns + j] = static_cast<float>(sum);
    }
  return matrix;
}

inline double norm(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * double{value};
  return std::sqrt(sum);
}

/// |a - b| / |b|
inline double relative_error(std::span<const float> a, std::span<const float> b) {
  Values difference(a.begin(), a.end());
  for (std::size_t i = 0; i < b.size(); ++i) difference[i] -= b[i];
  return norm(difference) / norm(b);
}

/// In rank order, in f32, as an all-reduce of a fixed order gives it.
inline Values mean_of(const std::vector<Values>& of_ranks) {
  Values mean = of_ranks[0];
  for (std::size_t rank = 1; rank < of_ranks.size(); ++rank)
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += of_ranks[rank][i];
  for (float& value : mean) value /= static_cast<float>(of_ranks.size());
  return mean;
}

/// What the error of a rank is taken against.
enum class Against : std::uint8_t { own, mean };

/// Ranks in one process, with error feedback or without.
struct World {
  std::vector<LowRank> ranks;
  std::vector<feedback::Feedback> feedback;
  Against against = Against::own;

  World(const LowRankOptions& options, const Shape& shape, std::size_t count,
        feedback::FeedbackKind kind = feedback::FeedbackKind::none) {
    for (std::size_t rank = 0; rank < count; ++rank) {
      ranks.emplace_back(options, "w", shape);
      feedback.emplace_back(feedback::FeedbackOptions{.kind = kind}, "w", shape);
    }
  }

  /// The decoded mean of a step, the same bits on every rank.
  Values step(const std::vector<Values>& gradients) {
    std::vector<std::span<const float>> values;
    std::vector<Values> factors;
    for (std::size_t k = 0; k < ranks.size(); ++k) {
      values.push_back(*feedback[k].before(gradients[k]));
      const auto factor = *ranks[k].begin(values[k]);
      EXPECT_EQ(factor.size(), ranks[k].round_values(0));
      factors.emplace_back(factor.begin(), factor.end());
    }
    if (ranks[0].rounds() == 2) {
      const Values mean = mean_of(factors);
      for (std::size_t k = 0; k < ranks.size(); ++k) {
        const auto factor = *ranks[k].proceed(values[k], mean);
        EXPECT_EQ(factor.size(), ranks[k].round_values(1));
        factors[k].assign(factor.begin(), factor.end());
      }
    }
    return take(mean_of(factors));
  }

 private:
  Values take(const Values& mean) {
    Values out(ranks[0].view().size());
    Values decoded(out.size());
    for (std::size_t k = 0; k < ranks.size(); ++k) {
      ranks[k].decode_own(decoded);
      if (against == Against::own) feedback[k].after(decoded);
      EXPECT_TRUE(ranks[k].finish(mean));
      ranks[k].decode(decoded);
      if (against == Against::mean) feedback[k].after(decoded);
      if (k == 0) out = decoded;
      EXPECT_EQ(decoded, out) << "rank " << k;
    }
    return out;
  }
};

}  // namespace gradwire::lossy
