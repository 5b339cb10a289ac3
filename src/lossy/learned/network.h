// The networks of learned compression: an encoder that makes a quarter of the floats of a run of
// values, say, and a decoder that makes the values of them (Abrahamyan et al. 2021, LGC).
// In: the bytes of a network that was trained elsewhere (docs/exchange.md 9.4); values near 1.
// Out: codes; values.
// Assumes: nothing of the bytes. A network is read once and used by one thread at a time. Sums have
// one order on every CPU, so that ranks decode the same bits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "lossy/learned/layer.h"

namespace gradwire::lossy {

class Network {
 public:
  /// Values that are coded together: a sequence of its own, the last one shorter.
  static constexpr std::size_t kBlock = 1024;

  /// Throws corrupt | truncated | unsupported, with the place, for bytes that are no network, and
  /// limit for one of more than 2^24 weights.
  explicit Network(ByteSpan bytes);

  /// What it was read from.
  const Bytes& bytes() const noexcept { return bytes_; }
  /// XXH3-64 of the bytes.
  std::uint64_t hash() const noexcept { return hash_; }

  /// Floats of the code of n values.
  std::size_t code_size(std::size_t n) const noexcept;
  /// `code` has code_size(values.size()) floats. Values that are not finite, and those that are too
  /// large for the weights, give codes that are not.
  void encode(std::span<const float> values, std::span<float> code);
  void decode(std::span<const float> code, std::span<float> values);

 private:
  struct Widths {
    std::vector<std::size_t> encoder, decoder;  ///< of the layers that halve and double
    std::size_t code = 0;
  };

  static Widths read_widths(ByteReader& in);
  void read_layers(const Widths& widths, ByteReader& in);
  std::size_t code_length(std::size_t n) const noexcept;  ///< positions of a block of n values
  void encode_block(std::span<const float> values, float* code);
  void decode_block(const float* code, std::span<float> values);

  Bytes bytes_;
  std::uint64_t hash_ = 0;
  std::size_t code_width_ = 0;
  std::vector<Layer> halving_;  ///< strided convolutions
  Layer to_code_;
  std::vector<Doubling> doubling_;  ///< transposed convolutions
  Layer to_values_;
  Sequence a_, b_;
};

}  // namespace gradwire::lossy
