// What all ranks have sent of one tensor, decoded and added in the order of ranks.
// In: bodies, lossy or exact.
// Out: the mean, which has the same bits on all ranks.
// Assumes: 16 bytes behind a body can be read; nothing else of it.
#pragma once

#include <span>
#include <vector>

#include "lossy/method/coder.h"

namespace gradwire::exchange {

/// Values of a tensor of any dtype that lossy methods take, in f32. `room` is used where they do
/// not lie so that they can be read in place.
std::span<const float> as_floats(const std::uint8_t* elements, DType dtype, std::size_t n,
                                 std::vector<float>& room);
/// Rounds to the dtype; finite values stay finite.
void from_floats(std::span<const float> values, DType dtype, std::uint8_t* elements);

class LossySum {
 public:
  /// `majority`: the sum counts signs, and the mean of magnitudes gives the size.
  LossySum(bool majority, lossy::DecodeMemory& memory, lossy::Selected& decoded)
      : majority_(majority), memory_(memory), decoded_(decoded) {}

  /// `is_exact`: the tensor goes exactly on all ranks in this step.
  void begin(DType dtype, std::span<const std::uint64_t> shape, std::size_t n, bool is_exact);
  /// Adds what a rank has sent. Throws corrupt where it is not of this dtype and shape.
  void add(ByteSpan body, std::size_t origin);
  /// The mean of what was added. Valid until the next begin.
  std::span<float> mean();

 private:
  void add_exact(ByteSpan body, std::size_t origin);
  void add_values();

  bool majority_;
  lossy::DecodeMemory& memory_;
  lossy::Selected& decoded_;
  DType dtype_ = DType::f32;
  std::span<const std::uint64_t> shape_;
  std::size_t ranks_ = 0;
  bool counts_votes_ = false;
  std::vector<float> sum_, magnitudes_, room_;
  Bytes elements_;
};

}  // namespace gradwire::exchange
