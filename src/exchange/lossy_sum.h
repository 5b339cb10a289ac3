// What all ranks have sent of one tensor, decoded and added in the order of ranks.
// In: bodies, lossy or exact.
// Out: the mean, which has the same bits on all ranks.
// Assumes: 16 bytes behind a body can be read; nothing else of it.
#pragma once

#include <span>
#include <vector>

#include "lossy/method/coder.h"

namespace gradwire::exchange {

class LossySum {
 public:
  /// `majority`: the sum counts signs, and the mean of magnitudes gives the size.
  LossySum(bool majority, lossy::DecodeMemory& memory, lossy::Selected& decoded)
      : majority_(majority), memory_(memory), decoded_(decoded) {}

  /// `is_exact`: the tensor goes exactly on all ranks in this step.
  void begin(DType dtype, std::span<const std::uint64_t> shape, std::size_t n, bool is_exact);
  /// Adds the next body of what a rank has sent. Throws corrupt where it is not of this dtype and
  /// shape.
  void add_next(ByteReader& in);
  /// The mean of what was added. Valid until the next begin.
  std::span<float> mean();

 private:
  void add_lossy(ByteSpan bytes, std::size_t origin);
  void add_exact(ByteSpan bytes, std::size_t origin);
  void check(const frame::TensorHeader& header, std::size_t origin) const;
  void add_values();

  bool majority_;
  lossy::DecodeMemory& memory_;
  lossy::Selected& decoded_;
  DType dtype_ = DType::f32;
  std::span<const std::uint64_t> shape_;
  std::size_t ranks_ = 0;
  bool counts_votes_ = false;
  std::vector<float> sum_, magnitudes_;
  Bytes elements_;
};

}  // namespace gradwire::exchange
