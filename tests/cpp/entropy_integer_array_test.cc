#include <random>

#include "entropy_testing.h"
#include "stages/entropy/integer_array.h"

namespace gradwire::entropy {
namespace {

using Integers = std::vector<std::int32_t>;
using testing::Symbols;

constexpr std::int32_t kLow = INT32_MIN;
constexpr std::int32_t kHigh = INT32_MAX;

Bytes written(const Integers& values) {
  Bytes bytes;
  ByteWriter out(bytes);
  write_integers(values, out);
  return bytes;
}

Bytes written_bytes(const Symbols& values) {
  Bytes bytes;
  ByteWriter out(bytes);
  write_bytes(values, out);
  return bytes;
}

Bytes written_flags(const Symbols& flags) {
  Bytes bytes;
  ByteWriter out(bytes);
  write_flags(flags, out);
  return bytes;
}

/// Reads `values` back from bytes that end right behind them, and from bytes that go on.
template <typename T, typename Read>
void expect_read(const Bytes& bytes, const std::vector<T>& values, Read read) {
  for (const std::size_t behind : {std::size_t{0}, std::size_t{1}, kReadSlack, kReadSlack + 9}) {
    Bytes frame = bytes;
    frame.resize(bytes.size() + behind, 0x5A);
    ByteReader in(frame);
    std::vector<T> result(values.size(), 77);
    read(in, result);
    ASSERT_EQ(result, values);
    ASSERT_EQ(in.left(), behind);
  }
}

void expect_round_trip(const Integers& values) {
  expect_read(written(values), values, [](ByteReader& in, Integers& result) {
    read_integers(in, result, kLow, kHigh, "test");
  });
}

void expect_bytes_round_trip(const Symbols& values) {
  expect_read(written_bytes(values), values,
              [](ByteReader& in, Symbols& result) { read_bytes(in, result, "test"); });
}

void expect_flags_round_trip(const Symbols& flags) {
  expect_read(written_flags(flags), flags,
              [](ByteReader& in, Symbols& result) { read_flags(in, result, "test"); });
}

ErrorKind kind_of(const Bytes& bytes, std::size_t n, std::int32_t low = kLow,
                  std::int32_t high = kHigh) {
  return testing::kind_of_error([&] {
    ByteReader in(bytes);
    Integers values(n);
    read_integers(in, values, low, high, "test");
  });
}

ErrorKind kind_of_flags(const Bytes& bytes, std::size_t n) {
  return testing::kind_of_error([&] {
    ByteReader in(bytes);
    Symbols flags(n);
    read_flags(in, flags, "test");
  });
}

TEST(IntegerArray, SmallestExamples) {
  EXPECT_EQ(written({}), Bytes{});
  EXPECT_EQ(written({-3}), (Bytes{0, 5}));
  EXPECT_EQ(written({7, 7, 7}), (Bytes{0, 14}));
  // 5 6: mode 1, smallest 5 = zigzag 10; t = 0 1, so codes 0 and 1 of one bit; one byte: bits 0, 1.
  // Mode 2 would have deltas 5 1 and be as long.
  EXPECT_EQ(written({5, 6}), (Bytes{1, 10, 1, 0x11, 1, 0x02}));
}

TEST(IntegerArray, LargeValuesHaveExtraBits) {
  // t = 0 and 100 = 1100100b: b = 6, second bit 1: symbol 32 + 2 + 1 = 35, 5 extra bits 00100b.
  const Bytes bytes = written({0, 100});
  Bytes expected{1, 0, 35, 0x01};
  expected.resize(3 + 18);
  expected[3 + 17] = 0x10;  // nibble of symbol 35
  for (const int byte : {1, 0x02, 0x04}) expected.push_back(static_cast<std::uint8_t>(byte));
  EXPECT_EQ(bytes, expected);
  expect_round_trip({0, 100});
}

TEST(IntegerArray, EveryClassComesBack) {
  Integers values{0};
  for (std::int64_t t = 1; t <= UINT32_MAX; t = t * 3 / 2 + 1) {
    for (const std::int64_t near : {t - 1, t, t + 1}) {
      if (near > UINT32_MAX) continue;
      values.push_back(static_cast<std::int32_t>(near + INT32_MIN));
      expect_round_trip({INT32_MIN, values.back()});
    }
  }
  values.push_back(INT32_MAX);
  expect_round_trip(values);
}

TEST(IntegerArray, SmoothValuesAreDeltas) {
  Integers values;
  for (int i = 0; i < 500; ++i) values.push_back(1000 + 7 * i + i % 3);
  EXPECT_EQ(written(values)[0], 2);
  expect_round_trip(values);
}

TEST(IntegerArray, RandomValuesOfAnyCountComeBack) {
  std::mt19937_64 random(1);
  for (std::size_t n = 0; n < 300; n += 1 + n / 8) {
    for (const unsigned bits : {1u, 4u, 8u, 13u, 32u}) {
      Integers values(n);
      for (auto& value : values) value = static_cast<std::int32_t>(random() >> (64 - bits));
      expect_round_trip(values);
    }
  }
}

TEST(IntegerArray, ShortAndLongStreamsComeBack) {
  std::mt19937_64 random(4);
  for (const std::size_t n : {4095, 4096, 4097, 70000}) {
    Integers values(n);
    for (auto& value : values) value = static_cast<std::int32_t>(random() >> (52 + random() % 10));
    expect_round_trip(values);
  }
}

TEST(IntegerArray, ModesOfBytesMayHoldIntegers) {
  const Symbols values{3, 1, 4, 1, 5, 9, 2, 6};
  const Bytes plain{4, 3, 1, 4, 1, 5, 9, 2, 6};
  ByteReader in(plain);
  Integers result(values.size());
  read_integers(in, result, 1, 9, "test");
  EXPECT_EQ(result, Integers(values.begin(), values.end()));
  EXPECT_EQ(kind_of(plain, values.size(), 1, 8), ErrorKind::corrupt) << "9 is out of range";
}

TEST(IntegerArray, BadArraysAreRefused) {
  EXPECT_EQ(kind_of({}, 1), ErrorKind::truncated);
  EXPECT_EQ(kind_of({6, 0}, 2), ErrorKind::corrupt) << "mode 6";
  EXPECT_EQ(kind_of({0, 14}, 3, 0, 6), ErrorKind::corrupt) << "7 is out of range";
  EXPECT_EQ(kind_of({0, 13}, 3, 0, 6), ErrorKind::corrupt) << "-7 is out of range";
  EXPECT_EQ(kind_of({1, 10, 1, 0x11, 1, 0x02}, 2, 0, 5), ErrorKind::corrupt) << "6 is out of range";
  EXPECT_EQ(kind_of({1, 10, 86, 0x11}, 2), ErrorKind::corrupt) << "no such class";
  EXPECT_EQ(kind_of({1, 10, 1, 0x21, 1, 0x02}, 2), ErrorKind::corrupt) << "incomplete code";
  EXPECT_EQ(kind_of({1, 10, 1, 0x1C, 1, 0x02}, 2), ErrorKind::corrupt) << "length 12";
  EXPECT_EQ(kind_of({1, 10, 2, 0x21, 0x12, 1, 0x02}, 2), ErrorKind::corrupt) << "padding nibble";
  EXPECT_EQ(kind_of({1, 10, 1, 0x11, 1, 0x06}, 2), ErrorKind::corrupt) << "padding of the stream";
  EXPECT_EQ(kind_of({1, 10, 1, 0x11, 4, 0x02, 0, 0, 0}, 2), ErrorKind::corrupt)
      << "stream too long";
  EXPECT_EQ(kind_of({1, 10, 1, 0x11, 1, 0x02}, 9), ErrorKind::corrupt) << "more values than bits";
  EXPECT_EQ(kind_of({4, 1, 2}, 3), ErrorKind::truncated);
}

TEST(IntegerArray, DistancesTakeRiceCodesWhereThoseAreShorter) {
  std::mt19937_64 random(3);
  for (const double mean : {0.3, 5.0, 900.0, 3e6}) {
    std::geometric_distribution<std::int32_t> gap(1 / (1 + mean));
    for (const std::size_t n : {2, 10, 300, 20000}) {
      Integers values(n);
      for (std::int32_t& value : values) value = gap(random);
      values[0] = values[1] + 1;  // not all equal
      Bytes bytes;
      ByteWriter out(bytes);
      write_distances(values, out);
      EXPECT_LE(bytes.size(), written(values).size());
      expect_read(bytes, values, [](ByteReader& in, Integers& result) {
        read_integers(in, result, 0, kHigh, "test");
      });
    }
  }
  Integers few{700, 3, 1500, 90};
  Bytes bytes;
  ByteWriter out(bytes);
  write_distances(few, out);
  EXPECT_EQ(bytes[0], 5) << "a class code of four values is longer";
  EXPECT_LE(bytes.size(), 11u);
}

TEST(IntegerArray, HugeCountNeedsNoMoreThanItsOwnMemory) {
  // 2^20 values, of which the stream says that it holds 8: refused before anything is decoded.
  EXPECT_EQ(kind_of({1, 10, 1, 0x11, 1, 0x02}, std::size_t{1} << 20), ErrorKind::corrupt);
}

TEST(IntegerArray, EveryPrefixIsTruncated) {
  Integers values;
  for (int i = 0; i < 50; ++i) values.push_back(i * i % 97);
  const Bytes bytes = written(values);
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    const auto end = bytes.begin() + static_cast<std::ptrdiff_t>(n);
    EXPECT_EQ(kind_of({bytes.begin(), end}, values.size()), ErrorKind::truncated) << n;
  }
}

TEST(IntegerArray, RandomBytesAreReadOrRefused) {
  for (const std::size_t n : {1, 2, 9, 40, 300}) {
    testing::expect_only_refusals(
        [&](ByteReader& in) {
          Integers values(n);
          read_integers(in, values, -1000, 1000, "test");
        },
        4000, 5);
    testing::expect_only_refusals(
        [&](ByteReader& in) {
          Symbols values(n);
          read_bytes(in, values, "test");
        },
        4000, 5);
    testing::expect_only_refusals(
        [&](ByteReader& in) {
          Symbols flags(n);
          read_flags(in, flags, "test");
        },
        4000, 3);
  }
}

TEST(IntegerArray, FlippedBitsAreReadOrRefused) {
  Integers values;
  for (int i = 0; i < 60; ++i) values.push_back(i * 37 % 101 * (i % 7 == 0 ? 1000 : 1));
  const Bytes bytes = written(values);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    Bytes bad = bytes;
    bad[bit / 8] = static_cast<std::uint8_t>(bad[bit / 8] ^ 1u << bit % 8);
    ByteReader in(bad);
    Integers result(values.size());
    try {
      read_integers(in, result, 0, 200000, "test");
    } catch (const Error& error) {
      ASSERT_TRUE(error.kind() == ErrorKind::corrupt || error.kind() == ErrorKind::truncated);
    }
    for (const auto value : result) ASSERT_TRUE(value >= 0 && value <= 200000);
  }
}

TEST(ByteArray, ShortestModeIsTaken) {
  EXPECT_EQ(written_bytes({}), Bytes{});
  EXPECT_EQ(written_bytes({200, 200, 200}), (Bytes{0, 0x90, 0x03}));
  EXPECT_EQ(written_bytes({9, 8, 200}), (Bytes{4, 9, 8, 200}));
  Symbols skewed(1000, 2);
  skewed[500] = 3;
  EXPECT_EQ(written_bytes(skewed)[0], 3);
  EXPECT_LT(written_bytes(skewed).size(), 140u);
}

TEST(ByteArray, AnyCountComesBack) {
  std::mt19937_64 random(2);
  for (std::size_t n = 0; n < 700; n += 1 + n / 16) {
    for (const double skew : {1.0, 3.0, 30.0}) {
      expect_bytes_round_trip(testing::random_symbols(random, n, 256, skew));
      expect_bytes_round_trip(testing::random_symbols(random, n, 3, skew));
    }
  }
  expect_bytes_round_trip(testing::random_symbols(random, 200001, 256, 5));
}

TEST(ByteArray, ModesOfIntegersAreRefused) {
  EXPECT_EQ(testing::kind_of_error([] {
              const Bytes bytes{1, 10, 1, 0x11, 1, 0x02};
              ByteReader in(bytes);
              Symbols values(2);
              read_bytes(in, values, "test");
            }),
            ErrorKind::corrupt);
}

TEST(FlagMap, SmallestExamples) {
  EXPECT_EQ(written_flags({1, 0, 1}), (Bytes{1, 0, 10})) << "bitmap 101b, one byte, mode 0";
  // 20 flags, the last set: one run at distance 19 of length 1; the bitmap would take 5 bytes.
  Symbols flags(200);
  flags[199] = 1;
  EXPECT_EQ(written_flags(flags), (Bytes{2, 1, 0, 0x8E, 0x03, 0, 2}));
  EXPECT_EQ(written_flags(Symbols(100)), (Bytes{2, 0}));
  EXPECT_EQ(written_flags({}), (Bytes{1}));
}

TEST(FlagMap, AnyCountComesBack) {
  std::mt19937_64 random(3);
  for (std::size_t n = 0; n < 3000; n += 1 + n / 10) {
    for (const double skew : {0.1, 1.0, 4.0, 100.0}) {
      const Symbols random_flags = testing::random_symbols(random, n, 2, skew);
      expect_flags_round_trip(random_flags);
      Symbols runs = random_flags;
      for (std::size_t i = 0; i + 1 < n; ++i) runs[i] = random_flags[i / 40 * 40];
      expect_flags_round_trip(runs);
    }
    expect_flags_round_trip(Symbols(n, 0));
    expect_flags_round_trip(Symbols(n, 1));
  }
}

TEST(FlagMap, BadMapsAreRefused) {
  EXPECT_EQ(kind_of_flags({}, 1), ErrorKind::truncated);
  EXPECT_EQ(kind_of_flags({0, 0, 10}, 3), ErrorKind::corrupt) << "kind 0";
  EXPECT_EQ(kind_of_flags({1, 0, 26}, 3), ErrorKind::corrupt) << "bit 3 of 3 flags";
  EXPECT_EQ(kind_of_flags({2, 3, 0, 2, 0, 2}, 5), ErrorKind::corrupt) << "run 2 ends at flag 6";
  EXPECT_EQ(kind_of_flags({2, 4, 0, 2, 0, 2}, 5), ErrorKind::corrupt) << "more runs than fit";
  EXPECT_EQ(kind_of_flags({2, 2, 0, 0, 0, 2}, 5), ErrorKind::corrupt) << "runs that touch";
  EXPECT_EQ(kind_of_flags({2, 1, 0, 0, 0, 0}, 5), ErrorKind::corrupt) << "run of no flags";
}

}  // namespace
}  // namespace gradwire::entropy
