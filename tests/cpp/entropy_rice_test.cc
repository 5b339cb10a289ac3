// Golomb-Rice codes: mode 5 of integer arrays.
#include <algorithm>

#include "base/bits.h"
#include "base/counter_random.h"
#include "entropy_testing.h"
#include "stages/entropy/integer_array.h"
#include "stages/entropy/rice.h"

namespace gradwire::entropy {
namespace {

using Integers = std::vector<std::int32_t>;

Integers read(const Bytes& bytes, std::size_t n, std::int32_t low = 0,
              std::int32_t high = INT32_MAX) {
  ByteReader in(bytes);
  Integers values(n);
  read_rice(in, values, low, high, "test");
  in.expect_end("test");
  return values;
}

ErrorKind kind_of(const Bytes& bytes, std::size_t n) {
  return testing::kind_of_error([&] { read(bytes, n); });
}

/// Everything as it is given, true or not.
Bytes written(std::int64_t least, unsigned low_bits, const Bytes& stream) {
  Bytes bytes;
  ByteWriter out(bytes);
  out.varint(zigzag(least));
  out.u8(static_cast<std::uint8_t>(low_bits));
  out.varint(stream.size());
  out.bytes(stream);
  return bytes;
}

TEST(Rice, SmallestExampleBitByBit) {
  // t = 2 and 5 with b = 1: 1, 0, 0 and 1, 1, 0, 1, lowest bit first.
  EXPECT_EQ(read(written(10, 1, {0b1011001}), 2), (Integers{12, 15}));
  Bytes bytes;
  ByteWriter out(bytes);
  write_rice(Integers{12, 15}, {10, 1, 7}, out);
  EXPECT_EQ(bytes, written(10, 1, {0b1011001}));
}

TEST(Rice, ValuesComeBackWithEveryNumberOfLowBits) {
  Integers values{0, 1, 70, 3, 1000, 12};
  for (std::uint64_t i = 0; i < 300; ++i)
    values.push_back(static_cast<std::int32_t>(random_below(1, i, 200)));
  for (unsigned low_bits = 0; low_bits <= 31; ++low_bits) {
    std::uint64_t bits = values.size() * (low_bits + 1);
    for (const std::int32_t value : values) bits += static_cast<unsigned>(value) >> low_bits;
    Bytes bytes;
    ByteWriter out(bytes);
    write_rice(values, {0, low_bits, bits}, out);
    EXPECT_EQ(read(bytes, values.size()), values) << low_bits;
  }
}

TEST(Rice, TheChosenCodeIsTheShortest) {
  for (const std::uint32_t below : {1u, 2u, 9u, 1000u, 1u << 30}) {
    Integers values;
    for (std::uint64_t i = 0; i < 200; ++i)
      values.push_back(static_cast<std::int32_t>(5 + random_below(below, i, below)));
    const RiceCode chosen = choose_rice(values);
    for (unsigned low_bits = 0; low_bits <= 31; ++low_bits) {
      std::uint64_t bits = values.size() * (low_bits + 1);
      for (const std::int32_t value : values)
        bits += static_cast<unsigned>(value - chosen.least) >> low_bits;
      EXPECT_LE(chosen.bits, bits) << below << ", " << low_bits;
    }
    Bytes bytes;
    ByteWriter out(bytes);
    write_rice(values, chosen, out);
    EXPECT_EQ(bytes.size(), chosen.bytes());
    EXPECT_EQ(read(bytes, values.size()), values);
  }
}

TEST(Rice, OnlyValuesNeedBeInTheRangeNotTheirLeast) {
  EXPECT_EQ(read(written(-2, 0, {0b011}), 1), Integers{0});
  EXPECT_EQ(kind_of(written(-2, 0, {0b01}), 1), ErrorKind::corrupt);
}

TEST(Rice, LiesAreRefused) {
  const Bytes stream{0b1011001};
  EXPECT_EQ(kind_of(written(0, 32, Bytes(40)), 2), ErrorKind::corrupt);
  EXPECT_EQ(kind_of(written(0, 1, {}), 2), ErrorKind::corrupt);
  EXPECT_EQ(kind_of(written(0, 1, {0xff}), 2), ErrorKind::corrupt) << "no zero ends the ones";
  EXPECT_EQ(kind_of(written(0, 1, {0b1011001, 0}), 2), ErrorKind::corrupt) << "a byte too many";
  EXPECT_EQ(kind_of(written(0, 1, {0b11011001}), 2), ErrorKind::corrupt) << "padding";
  EXPECT_EQ(kind_of(written(std::int64_t{1} << 61, 1, stream), 2), ErrorKind::corrupt);
  EXPECT_EQ(kind_of(written(-(std::int64_t{1} << 62), 1, stream), 2), ErrorKind::corrupt);
  // t = 2^32, which would be 0 with this least.
  EXPECT_EQ(kind_of(written(-(std::int64_t{1} << 32), 31, {3, 0, 0, 0, 0}), 1), ErrorKind::corrupt);
  // A stream of ones alone.
  EXPECT_EQ(kind_of(written(0, 0, Bytes(100000, 0xff)), 3), ErrorKind::corrupt);
}

}  // namespace
}  // namespace gradwire::entropy
