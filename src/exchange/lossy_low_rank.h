// Means of matrices by means of their factors (PowerSGD, ACP-SGD).
// In: a bucket's memory and its tensors' coders.
// Out: an exchange; in the end the means lie in the bucket.
// Assumes: what is given by reference outlives it. Factors, and tensors that go exactly, are added
// by the exact exchange in f32, in the order of ranks: the same bits on all ranks.
#pragma once

#include "exchange/lossy_rounds.h"

namespace gradwire::exchange {

class LowRankRounds final : public LossyRounds {
 public:
  LowRankRounds(const LossyWork& work, const std::vector<LossyPart>& tensors, const RoundPlace& at);

 private:
  void prepare(std::size_t round) override;
  std::unique_ptr<Exchange> make(std::size_t round) override;
  void finish() override;

  /// What a round sends, and where each tensor's share stands in it.
  void lay_out(std::size_t round);
  void fill(std::size_t round);

  const std::vector<LossyPart>& tensors_;
  unsigned rounds_;
  RoundLayout layout_;
  std::vector<float> buffer_, before_, out_;
};

}  // namespace gradwire::exchange
