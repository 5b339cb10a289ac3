// What plans would cost, from a sample.
// In: a tensor, its sample, plans without base and tables.
// Out: estimated bits; a plan's base and window.
// Assumes: the plan's grid covers the view.
#pragma once

#include "lossless/survey.h"

namespace gradwire::lossless {

struct Extent;
struct ResidualCounts;

/// Compares plans of the scaled pipeline for one tensor. The sample must outlive it.
template <typename Word>
class Estimator {
 public:
  Estimator(DType dtype, const Sample<Word>& sample, const CompressOptions& options)
      : dtype_(dtype), sample_(sample), options_(options) {}

  /// Estimated bits of the whole tensor under the plan, its side information (`side_bytes`)
  /// included. Sets plan.base and, where the alphabet may grow, plan.header.scaled.window.
  std::uint64_t operator()(Plan& plan, std::size_t side_bytes);

 private:
  ResidualCounts collect(const Plan& plan);
  std::size_t collect_run(const Plan& plan, std::size_t run, const Word* words, std::size_t at);
  void count_fractions(const ScaledParameters& p, const Word* words, std::size_t n,
                       std::uint8_t* counts);
  std::uint64_t symbol_bits(const Plan& plan, const ResidualCounts& residuals,
                            const Extent& extent);
  std::span<const std::uint8_t> neighbours(const Plan& plan, const ResidualCounts& residuals);

  DType dtype_;
  const Sample<Word>& sample_;
  const CompressOptions& options_;
  std::vector<Word> places_;             ///< of the plan's coded elements (predict::residual_half)
  std::vector<std::uint8_t> fractions_;  ///< count of each, when counted
  std::vector<std::uint8_t> mask_, symbols_;
  std::uint64_t open_bits_ = 0;  ///< that the counts leave
};

}  // namespace gradwire::lossless
