// Means of integers of a table, summed as they are, after a rotation (THC).
// In: a bucket's memory and its tensors' coders.
// Out: an exchange; in the end the means lie in the bucket.
// Assumes: what is given by reference outlives it. Rounds: tensors that go exactly, if there are
// any; the largest norm of each block over ranks; the sums of the table's integers.
#pragma once

#include "base/power_blocks.h"
#include "exchange/lossy_rounds.h"
#include "lossy/thc/lanes.h"
#include "lossy/thc/thc.h"

namespace gradwire::exchange {

class TableSumRounds final : public LossyRounds {
 public:
  TableSumRounds(const LossyWork& work, const std::vector<LossyPart>& tensors, const RoundPlace& at,
                 const lossy::TableQuantiser& quantiser);

 private:
  /// A tensor, its blocks, and where its norms and words begin.
  struct Item {
    LossyPart part;
    PowerBlocks blocks;
    std::size_t first_norm = 0, first_word = 0;
  };
  enum class Round : std::uint8_t { exact, norms, words, end };

  void prepare(std::size_t round) override;
  std::unique_ptr<Exchange> make(std::size_t round) override;
  void finish() override;

  Round round_of(std::size_t round) const noexcept;
  void measure(const Item& item);
  void quantise(const Item& item);
  void decode(const Item& item);
  /// Puts what is rotated back where it came from.
  void rotate_back(const Item& item);
  std::span<const float> norms_of(const Item& item);

  const lossy::TableQuantiser& quantiser_;
  lossy::Lanes lanes_;
  ExactTensors exact_;
  std::vector<Item> items_;
  std::vector<std::int64_t> norms_;
  std::vector<std::int32_t> words_;
  std::vector<float> rotated_, item_norms_;
  std::vector<std::uint8_t> entries_;
  std::vector<std::uint32_t> sums_;
};

}  // namespace gradwire::exchange
