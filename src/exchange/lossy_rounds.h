// What lossy means in rounds have in common.
// In: a bucket's memory, its tensors' coders, the exact exchanges that last from step to step.
// Out: rounds for the methods' own classes to fill.
// Assumes: what is given by reference outlives it.
#pragma once

#include <vector>

#include "exchange/lossy_exact.h"
#include "exchange/rounds.h"

namespace gradwire::exchange {

/// Where an exchange in rounds takes place.
struct RoundPlace {
  Place place;
  unsigned rank = 0, world = 1;
  RoundBuckets& buckets;
};

class LossyRounds : public Rounds {
 protected:
  LossyRounds(const LossyWork& work, const RoundPlace& at)
      : work_{work.recipe, work.memory, work.dtype, work.data, work.step, counters()}, at_(at) {}

  /// Valid until the next call.
  std::span<const float> gradient_of(const LossyPart& part) { return work_.gradient(part, room_); }
  std::uint32_t index_of(std::size_t round) const { return round_index(at_.place, round); }

  /// An additive round of integers; `most` is for sums.
  template <typename T>
  std::unique_ptr<Exchange> start_additive(Reduction reduction, std::vector<T>& values,
                                           std::size_t round, std::uint32_t most = 0) {
    const AdditiveBucket bucket{.index = index_of(round),
                                .rank = at_.rank,
                                .world = at_.world,
                                .reduction = reduction,
                                .elements = values.size(),
                                .most = most};
    const std::span<std::uint8_t> bytes(reinterpret_cast<std::uint8_t*>(values.data()),
                                        values.size() * sizeof(T));
    return additive(bucket, bytes, at_.place.step);
  }

  LossyWork work_;
  RoundPlace at_;

 private:
  std::vector<float> room_;
};

}  // namespace gradwire::exchange
