// What tests of learned compression share: bytes of a network, and a plain form of its layers.
#pragma once

#include <bit>
#include <cmath>
#include <utility>

#include "base/bytes.h"
#include "base/counter_random.h"
#include "lossy/learned/network.h"

namespace gradwire::testing {

/// A network as bytes, its weights drawn by a seed.
struct TestNetwork {
  std::vector<std::uint16_t> encoder{8, 20}, decoder{24, 5};
  std::uint16_t code = 3;
  float size = 1;  ///< of the weights
  std::uint64_t seed = 1;

  Bytes bytes() const {
    Bytes bytes;
    ByteWriter out(bytes);
    out.u32(0x4e4c5747);
    out.u8(1);
    out.u8(static_cast<std::uint8_t>(encoder.size()));
    for (const std::uint16_t width : encoder) out.u16(width);
    out.u16(code);
    for (const std::uint16_t width : decoder) out.u16(width);
    for (const float weight : weights()) out.u32(std::bit_cast<std::uint32_t>(weight));
    return bytes;
  }

  /// Of all layers in the order of the bytes; a layer's are about as large as keeps its outputs.
  std::vector<float> weights() const {
    std::vector<float> all;
    std::size_t from = 1;
    for (const std::uint16_t to : encoder) append(3, std::exchange(from, to), to, all);
    append(1, std::exchange(from, code), code, all);
    for (const std::uint16_t to : decoder) append(3, std::exchange(from, to), to, all);
    append(1, from, 1, all);
    return all;
  }

 private:
  void append(std::size_t kernel, std::size_t from, std::size_t to, std::vector<float>& all) const {
    const float most = size / std::sqrt(static_cast<float>(kernel * from));
    for (std::size_t i = 0; i < (kernel * from + 1) * to; ++i)
      all.push_back(
          most * 2 *
          (random_unit(RandomKey(seed, 7), static_cast<std::uint32_t>(all.size())) - 0.5F));
  }
};

/// Of the widths that training uses.
inline Bytes usual_network() {
  return TestNetwork{{64, 128, 256, 64}, {32, 64, 128, 32}, 4}.bytes();
}

/// One whose code says everything: values come back as they were, but for roundings. A value goes
/// through a leaky layer twice, once as it is and once negated; the difference is 1.01 times it.
inline Bytes identity_network() {
  Bytes bytes;
  ByteWriter out(bytes);
  out.u32(0x4e4c5747);
  out.u8(1);
  out.u8(1);
  for (const unsigned width : {4u, 2u, 2u}) out.u16(static_cast<std::uint16_t>(width));
  const auto floats = [&](std::initializer_list<float> values) {
    for (const float value : values) out.u32(std::bit_cast<std::uint32_t>(value));
  };
  constexpr float k = 1 / 1.01F;
  floats({0, 1, 0, 0, -1, 0, 0, 0, 1, 0, 0, -1});  // an even value, negated, the odd one, negated
  floats({0, 0, 0, 0});
  floats({k, -k, 0, 0, 0, 0, k, -k});  // code: the even value, the odd one
  floats({0, 0});
  floats({0, 1, 0, 0, -1, 0});  // from the even value to its place, and negated
  floats({0, 0, 1, 0, 0, -1});  // from the odd value to the place behind
  floats({0, 0});
  floats({k, -k});
  floats({0});
  return bytes;
}

}  // namespace gradwire::testing
