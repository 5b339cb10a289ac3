// Exact means inside a lossy exchange: of tensors that go exactly, and of factors.
// In: floats.
// Out: an exact exchange of them, in the order of ranks.
// Assumes: the same layout on all ranks. What is given by reference outlives the exchange.
#pragma once

#include <map>

#include "exchange/lossy_work.h"
#include "exchange/wire.h"

namespace gradwire::exchange {

/// The floats of each tensor of a round, and whether it is a factor.
using RoundLayout = std::vector<std::pair<std::uint64_t, bool>>;
/// The buckets of rounds, by what they carry: their rooms last from step to step.
using RoundBuckets = std::map<RoundLayout, ExchangeBucket>;

/// Each round has a bucket number of its own, so that none takes another's messages for its own.
/// The agreement is in it: ranks with other specs or tensors refuse each other's.
constexpr std::uint32_t round_index(const Place& place, std::size_t round) noexcept {
  const auto number = static_cast<std::uint32_t>(place.bucket * 4 + round);
  return (number ^ (static_cast<std::uint32_t>(place.agreement) & 0x3fffffff)) | 0x40000000;
}

std::unique_ptr<Exchange> start_exact(RoundBuckets& buckets, const RoundLayout& layout,
                                      std::vector<float>& values, std::uint32_t index,
                                      std::uint32_t step, unsigned rank, unsigned world);

/// The tensors of a bucket that go exactly in a step, as a round of their own.
class ExactTensors {
 public:
  ExactTensors(const LossyWork& work, const std::vector<LossyPart>& tensors);
  bool empty() const noexcept { return parts_.empty(); }
  std::unique_ptr<Exchange> start(RoundBuckets& buckets, std::uint32_t index, std::uint32_t step,
                                  unsigned rank, unsigned world);
  /// Puts the means into the bucket.
  void place();

 private:
  LossyWork work_;
  std::vector<LossyPart> parts_;
  std::vector<float> values_;
};

}  // namespace gradwire::exchange
