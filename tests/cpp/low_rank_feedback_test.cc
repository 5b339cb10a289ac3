// Low-rank steps with error feedback: how soon the running mean of what is decoded reaches the
// gradient, and what the error is taken against.

#include "low_rank_testing.h"

namespace gradwire::lossy {
namespace {

using feedback::FeedbackKind;
constexpr MatrixView kView{128, 256};
const Shape kShape{128, 256};

/// Singular values 1, 1/2, 1/3, ...
Values harmonic_matrix(std::uint64_t seed) {
  std::vector<double> weights(128);
  for (std::size_t k = 0; k < weights.size(); ++k) weights[k] = 1 / static_cast<double>(k + 1);
  return matrix_of_spectrum(kView, weights, seed);
}

/// Relative errors of the mean of what was decoded until then, after 50, 100, 200, 400 steps.
std::vector<double> running_errors(World& world, const Values& matrix) {
  std::vector<double> errors;
  std::vector<double> sum(matrix.size());
  const std::vector<Values> gradients(world.ranks.size(), matrix);
  for (int step = 1; step <= 400; ++step) {
    const Values out = world.step(gradients);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += double{out[i]};
    if (step != 50 && step != 100 && step != 200 && step != 400) continue;
    Values mean(sum.size());
    for (std::size_t i = 0; i < sum.size(); ++i) mean[i] = static_cast<float>(sum[i] / step);
    errors.push_back(relative_error(mean, matrix));
  }
  return errors;
}

/// A step sends 4 (128 + 256) floats with powersgd, half with acpsgd. The figures are those of an
/// independent simulation of both methods (another matrix of this spectrum), after 50, 100, 200,
/// 400 steps; ours differ by at most 6 % over seeds.
void expect_running_errors(LowRankKind kind, const std::vector<double>& published) {
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    World world({.kind = kind, .seed = seed}, kShape, 1, FeedbackKind::error);
    const std::vector<double> errors = running_errors(world, harmonic_matrix(seed));
    for (std::size_t k = 0; k < errors.size(); ++k)
      EXPECT_NEAR(errors[k], published[k], 0.06 * published[k]) << "seed " << seed << ", " << k;
  }
}

TEST(LowRankFeedback, TheRunningMeanOfPowerSgdReachesTheGradient) {
  expect_running_errors(powersgd, {0.125, 0.076, 0.032, 0.016});
}

TEST(LowRankFeedback, TheRunningMeanOfAcpSgdReachesTheGradient) {
  expect_running_errors(acpsgd, {0.157, 0.106, 0.060, 0.029});
}

/// Without feedback what is not of the leading four directions is lost for good.
TEST(LowRankFeedback, WithoutFeedbackTheRunningMeanStaysAtTheBestMatrixOfTheRank) {
  double all = 0;
  double rest = 0;
  for (int k = 128; k >= 1; --k) (k > 4 ? rest : all) += 1.0 / (k * k);
  const double best = std::sqrt(rest / (all + rest));
  for (const LowRankKind kind : {powersgd, acpsgd}) {
    World world({.kind = kind}, kShape, 1);
    EXPECT_NEAR(running_errors(world, harmonic_matrix(1)).back(), best, 0.01 * best);
  }
}

/// Gradients of ranks: the matrix and three times as much noise of each one's own.
std::vector<Values> noisy(const Values& matrix, std::size_t ranks, std::uint64_t step) {
  std::vector<Values> gradients;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    Values values = some_values(matrix.size(), 1000 + step * ranks + rank);
    const auto factor = static_cast<float>(3 * norm(matrix) / norm(values));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = matrix[i] + factor * values[i];
    gradients.push_back(std::move(values));
  }
  return gradients;
}

struct Memories {
  double own;
  double mean;
};

/// Steps with both kinds of error; the largest difference of what they decode in the first three,
/// and what rank 0 keeps after the last, in units of the matrix.
struct BothErrors {
  Values matrix = harmonic_matrix(1);
  World own;
  World mean;
  double differ = 0;
  std::uint64_t steps = 0;

  explicit BothErrors(LowRankKind kind)
      : own({.kind = kind}, kShape, 4, FeedbackKind::error),
        mean({.kind = kind}, kShape, 4, FeedbackKind::error) {
    mean.against = Against::mean;
  }
  Memories run_to(std::uint64_t last) {
    for (; steps < last; ++steps) {
      const std::vector<Values> gradients = noisy(matrix, 4, steps);
      const Values a = own.step(gradients);
      const Values b = mean.step(gradients);
      if (steps < 3) differ = std::max(differ, relative_error(a, b));
    }
    return {norm(own.feedback[0].error()) / norm(matrix),
            norm(mean.feedback[0].error()) / norm(matrix)};
  }
};

/// The two are the same trajectory in exact arithmetic. In f32 a step adds some roundings (of the
/// error, the factors, the product: 16 of them are allowed here), and both methods magnify them
/// from step to step.
TEST(LowRankFeedback, ErrorsAgainstTheOwnAndTheMeanOutputGiveTheSameSteps) {
  for (const LowRankKind kind : {powersgd, acpsgd}) {
    BothErrors both(kind);
    both.run_to(3);
    EXPECT_LT(both.differ, 16 * kUnit);
  }
}

TEST(LowRankFeedback, AnErrorAgainstTheMeanOutputGrowsAndAgainstTheOwnItDoesNot) {
  for (const LowRankKind kind : {powersgd, acpsgd}) {
    BothErrors both(kind);
    const Memories early = both.run_to(100);
    const Memories late = both.run_to(300);
    EXPECT_NEAR(late.own, early.own, 0.03 * early.own);
    EXPECT_GT(late.mean, 1.5 * early.mean);  // a random walk: sqrt(3)
    EXPECT_GT(late.mean, 2 * late.own);
  }
}

/// A rounding of a value of x, of its decoded part, and of the difference a step: with x below
/// some 20 norms of the matrix, they add up to 20 steps * 3 * 20 units at most.
TEST(LowRankFeedback, WhatIsDecodedAndWhatIsKeptAreAllGradients) {
  for (const LowRankKind kind : {powersgd, acpsgd})
    for (std::size_t ranks = 1; ranks <= 4; ++ranks) {
      const Values matrix = harmonic_matrix(2);
      World world({.kind = kind}, kShape, ranks, FeedbackKind::error);
      std::vector<double> left(matrix.size());
      for (std::uint64_t step = 0; step < 20; ++step) {
        const std::vector<Values> gradients = noisy(matrix, ranks, step);
        const Values out = world.step(gradients);
        for (std::size_t i = 0; i < left.size(); ++i) {
          for (const Values& gradient : gradients)
            left[i] += double{gradient[i]} / static_cast<double>(ranks);
          left[i] -= double{out[i]};
        }
      }
      for (const feedback::Feedback& each : world.feedback)
        for (std::size_t i = 0; i < left.size(); ++i)
          left[i] -= double{each.error()[i]} / static_cast<double>(ranks);
      double squares = 0;
      for (const double value : left) squares += value * value;
      EXPECT_LT(std::sqrt(squares), 20 * 3 * 20 * kUnit * norm(matrix)) << ranks << " ranks";
    }
}

}  // namespace
}  // namespace gradwire::lossy
