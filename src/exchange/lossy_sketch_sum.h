// Means of sparse integers, summed by a sketch (lossless homomorphic compression).
// In: a bucket's memory and its tensors' coders.
// Out: an exchange; in the end the means lie in the bucket.
// Assumes: what is given by reference outlives it. Rounds: tensors that go exactly, if there are
// any; the largest magnitude of each tensor over ranks, which gives its grid; the index by OR; the
// payload by sums. How long the last one is follows from the index, on which all ranks agree.
#pragma once

#include "exchange/lossy_rounds.h"
#include "lossy/sketch/grid.h"
#include "lossy/sketch/sketch.h"

namespace gradwire::exchange {

class SketchSumRounds final : public LossyRounds {
 public:
  SketchSumRounds(const LossyWork& work, const std::vector<LossyPart>& tensors,
                  const RoundPlace& at);

 private:
  /// A tensor and where its integers begin.
  struct Item {
    LossyPart part;
    std::size_t first = 0;
    lossy::IntegerGrid grid;
  };
  enum class Round : std::uint8_t { exact, magnitudes, index, payload, end };

  void prepare(std::size_t round) override;
  std::unique_ptr<Exchange> make(std::size_t round) override;
  void finish() override;

  Round round_of(std::size_t round) const noexcept;
  void measure(std::size_t i);
  void put_on_grid(std::size_t i);
  void mark();
  void fill();
  void decode(const Item& item);
  std::uint32_t most() const;

  lossy::SketchOptions options_;
  ExactTensors exact_;
  std::vector<Item> items_;
  std::vector<std::int64_t> magnitudes_;
  std::vector<std::int32_t> integers_, chosen_, payload_;
  std::vector<std::uint8_t> index_, own_index_;
  std::vector<float> values_;
  lossy::SketchScratch scratch_;
  lossy::SketchPlan plan_;
  bool is_planned_ = false;
  bool failed_before_index_ = false;  ///< all ranks know of it with the index
};

}  // namespace gradwire::exchange
