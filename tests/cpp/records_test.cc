#include "stages/split/records.h"

#include <random>

#include <gtest/gtest.h>

namespace gradwire::split {
namespace {

template <typename Word>
std::vector<Word> random_records(std::size_t n, unsigned q, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Word> records(n);
  for (Word& record : records) {
    record = static_cast<Word>(q == 0 ? 0 : random() >> (64 - q));
    // Many low bits of zero, so that every count occurs.
    if (random() % 2 == 0 && q > 0) {
      record = static_cast<Word>(record >> (random() % q) << (random() % q));
      record = static_cast<Word>(record & ((std::uint64_t{1} << q) - 1));
    }
  }
  return records;
}

/// docs/format.md 3.5, bit by bit.
template <typename Word>
Bytes naive_pack(const std::vector<Word>& records, unsigned q) {
  Bytes bytes;
  for (unsigned plane = 0; plane < q / 8; ++plane) {
    for (const Word record : records)
      bytes.push_back(static_cast<std::uint8_t>(record >> 8 * plane));
  }
  const std::size_t start = bytes.size();
  bytes.resize(start + (records.size() * (q % 8) + 7) / 8);
  std::size_t bit = 0;
  for (const Word record : records) {
    for (unsigned b = q / 8 * 8; b < q; ++b, ++bit) {
      const auto set =
          static_cast<std::uint8_t>((static_cast<std::uint64_t>(record) >> b & 1) << (bit & 7));
      bytes[start + bit / 8] = static_cast<std::uint8_t>(bytes[start + bit / 8] | set);
    }
  }
  return bytes;
}

template <typename Word>
void expect_packs(std::size_t n, unsigned q) {
  SCOPED_TRACE(testing::Message() << n << " records of " << q << " bits");
  const auto records = random_records<Word>(n, q, n * 64 + q);
  Bytes bytes(record_room(n, q), 0xA5);
  pack_records(records.data(), n, q, bytes.data());
  bytes.resize(record_bytes(n, q));
  ASSERT_EQ(bytes, naive_pack(records, q));
  Bytes readable(bytes.size() + 8, 0x5A);
  std::copy(bytes.begin(), bytes.end(), readable.begin());
  std::vector<Word> back(n, static_cast<Word>(~Word{0}));
  unpack_records(readable.data(), n, q, back.data());
  ASSERT_EQ(back, records);
}

constexpr std::size_t kSizes[] = {0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 1000};

TEST(Records, SmallestExample) {
  // Two records of 11 bits: low bytes CD and 34, then 3 bits each, 010 and 101: 00'101'010.
  const std::vector<std::uint32_t> records{0x2CD, 0x534};
  Bytes bytes(record_room(2, 11));
  pack_records(records.data(), 2, 11, bytes.data());
  ASSERT_EQ(record_bytes(2, 11), 3u);
  bytes.resize(3);
  EXPECT_EQ(bytes, (Bytes{0xCD, 0x34, 0x2A}));
}

TEST(Records, EveryWidthRoundTripsAtEverySize) {
  for (const std::size_t n : kSizes) {
    for (unsigned q = 0; q <= 11; ++q) expect_packs<std::uint16_t>(n, q);
    for (unsigned q = 0; q <= 24; ++q) expect_packs<std::uint32_t>(n, q);
    for (unsigned q = 0; q <= 53; ++q) expect_packs<std::uint64_t>(n, q);
  }
}

TEST(Counted, SmallestExample) {
  // Eight bits, lo = 2. 1011'0000 has 4 significant bits: count 2, the bits 101 above its last one.
  const CountShape shape{8, 2};
  EXPECT_EQ(significant_bits(0b10110000, 8), 4u);
  EXPECT_EQ(count_of(0b10110000, shape), 2u);
  EXPECT_EQ(open_bits(2, shape), 3u);
  EXPECT_EQ(count_of(0, shape), 0u);
  EXPECT_EQ(count_of(0b01000000, shape), 0u);  // u = 2
  EXPECT_EQ(count_of(1, shape), 6u);           // u = 8
  EXPECT_EQ(count_of(1, CountShape{23, 2}), 15u);
  Bytes bytes(16);
  BitWriter out(bytes.data());
  EXPECT_EQ(put_counted(0b10110000, shape, out), 2u);
  EXPECT_EQ(out.finish(), 1u);
  EXPECT_EQ(bytes[0], 0b101);
}

template <typename Word>
void expect_counted(CountShape shape, bool has_sign) {
  SCOPED_TRACE(testing::Message() << shape.rest << " bits from " << shape.lo);
  const std::size_t n = 500;
  const unsigned q = shape.rest + has_sign;
  const auto records = random_records<Word>(n, q, shape.rest * 64 + shape.lo);
  Bytes room(n * 8 + 16);
  std::vector<std::uint8_t> counts(n);
  BitWriter out(room.data());
  pack_counted(records.data(), n, shape, has_sign, counts.data(), out);
  const std::size_t size = out.finish();
  std::size_t bits = 0;
  for (std::size_t i = 0; i < n; ++i) {
    ASSERT_LT(counts[i], kCountAlphabet);
    bits += open_bits(counts[i], shape) + has_sign;
  }
  ASSERT_EQ(size, (bits + 7) / 8);
  Bytes bytes(room.begin(), room.begin() + static_cast<std::ptrdiff_t>(size + kBitSlack));
  std::fill_n(bytes.end() - kBitSlack, kBitSlack, std::uint8_t{0xA5});
  SlackBitReader in(ByteSpan(bytes).first(size));
  std::vector<Word> back(n);
  ASSERT_TRUE(unpack_counted(in, counts.data(), n, shape, has_sign, back.data()));
  EXPECT_TRUE(in.at_exact_end());
  EXPECT_EQ(back, records);
}

TEST(Counted, EveryShapeRoundTrips) {
  for (const bool has_sign : {false, true}) {
    for (unsigned rest = 1; rest <= 23; ++rest) {
      for (unsigned lo = 0; lo <= rest; ++lo) expect_counted<std::uint32_t>({rest, lo}, has_sign);
    }
    for (unsigned rest = 1; rest <= 10; ++rest) {
      for (unsigned lo = 0; lo <= rest; ++lo) expect_counted<std::uint16_t>({rest, lo}, has_sign);
    }
  }
}

TEST(Counted, CountsThatAskForMoreBitsThanThereAreAreRefused) {
  for (unsigned rest = 1; rest <= 23; ++rest) {
    for (unsigned lo = 0; lo <= rest; ++lo) {
      for (unsigned v = 0; v < kCountAlphabet; ++v) {
        const Bytes bytes(16);
        SlackBitReader in(ByteSpan(bytes).first(8));
        std::uint64_t g = 0;
        const bool sound = v == 0 || v == 15 || lo + v <= rest;
        EXPECT_EQ(get_counted(v, {rest, lo}, in, g), sound) << rest << " " << lo << " " << v;
      }
    }
  }
}

}  // namespace
}  // namespace gradwire::split
