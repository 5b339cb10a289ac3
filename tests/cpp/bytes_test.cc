#include "base/bytes.h"

#include <random>

#include <gtest/gtest.h>

#include "base/bits.h"
#include "gradwire/error.h"

namespace gradwire {
namespace {

Bytes varint_bytes(std::uint64_t value) {
  Bytes bytes;
  ByteWriter(bytes).varint(value);
  return bytes;
}

/// The kind of error of reading one varint; 0 for none.
int varint_error(const Bytes& bytes) {
  ByteReader in(bytes);
  try {
    in.varint("field");
  } catch (const Error& error) {
    return static_cast<int>(error.kind());
  }
  return 0;
}

constexpr int kCorrupt = static_cast<int>(ErrorKind::corrupt);
constexpr int kTruncated = static_cast<int>(ErrorKind::truncated);

TEST(Varint, SmallestExamples) {
  EXPECT_EQ(varint_bytes(0), (Bytes{0x00}));
  EXPECT_EQ(varint_bytes(127), (Bytes{0x7F}));
  EXPECT_EQ(varint_bytes(128), (Bytes{0x80, 0x01}));
  EXPECT_EQ(varint_bytes(300), (Bytes{0xAC, 0x02}));
}

TEST(Varint, RoundTripsAroundEveryPowerOfTwo) {
  for (unsigned bit = 0; bit < 63; ++bit) {
    const std::uint64_t power = std::uint64_t{1} << bit;
    for (const std::uint64_t value : {power - 1, power, power + 1, 2 * power - 1}) {
      const Bytes bytes = varint_bytes(value);
      EXPECT_EQ(bytes.size(), varint_size(value));
      ByteReader in(bytes);
      EXPECT_EQ(in.varint("field"), value);
      EXPECT_EQ(in.left(), 0u);
    }
  }
}

TEST(Varint, TheLongestHasNineBytes) {
  const Bytes bytes = varint_bytes((std::uint64_t{1} << 63) - 1);
  EXPECT_EQ(bytes, (Bytes{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F}));
}

TEST(Varint, LongerFormsThanNeededAreRefused) {
  EXPECT_EQ(varint_error({0x80, 0x00}), kCorrupt);
  EXPECT_EQ(varint_error({0xFF, 0x80, 0x00}), kCorrupt);
}

TEST(Varint, ValuesFromTwoToThe63AreRefused) {
  EXPECT_EQ(varint_error({0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01}), kCorrupt);
  EXPECT_EQ(varint_error({0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}), kCorrupt);
}

TEST(Varint, EveryCutIsTruncated) {
  const Bytes whole = varint_bytes((std::uint64_t{1} << 62) + 12345);
  for (std::size_t n = 0; n < whole.size(); ++n) {
    EXPECT_EQ(varint_error(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n))),
              kTruncated);
  }
}

TEST(Zigzag, SmallMagnitudesGetSmallCodes) {
  EXPECT_EQ(zigzag(0), 0u);
  EXPECT_EQ(zigzag(-1), 1u);
  EXPECT_EQ(zigzag(1), 2u);
  EXPECT_EQ(zigzag(-65536), 131071u);
  for (const std::int64_t value : {std::int64_t{0}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
    EXPECT_EQ(unzigzag(zigzag(value)), value);
  }
}

TEST(ByteReader, MessagesNameFieldAndOffsetInTheFrame) {
  const Bytes bytes{1, 2, 3};
  ByteReader in(bytes, 100);
  in.u8("first");
  try {
    in.u32("raw_bytes");
    FAIL() << "read past the end";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::truncated);
    EXPECT_NE(std::string(error.what()).find("raw_bytes at byte 101"), std::string::npos);
  }
}

TEST(ByteReader, CountsAboveTheirLimitAreCorrupt) {
  Bytes bytes;
  ByteWriter(bytes).varint(17);
  EXPECT_EQ(ByteReader(bytes).count("count", 17), 17u);
  EXPECT_THROW(ByteReader(bytes).count("count", 16), Error);
}

TEST(ByteReader, LengthsNearTheTypesMaximumDoNotWrap) {
  const Bytes bytes{1, 2, 3};
  ByteReader in(bytes);
  EXPECT_THROW(in.bytes("payload", SIZE_MAX), Error);
  EXPECT_THROW(in.bytes("payload", 4), Error);
  EXPECT_EQ(in.bytes("payload", 3).size(), 3u);
  EXPECT_NO_THROW(in.expect_end("payload"));
}

TEST(ByteReader, LeftOverBytesAreCorrupt) {
  const Bytes bytes{1};
  EXPECT_THROW(ByteReader(bytes).expect_end("section"), Error);
}

TEST(ByteWriter, FixedIntegersAreLittleEndian) {
  Bytes bytes;
  ByteWriter out(bytes);
  out.u8(1);
  out.u16(0x0302);
  out.u32(0x07060504);
  out.u64(0x0F0E0D0C0B0A0908);
  for (std::size_t i = 0; i < bytes.size(); ++i) EXPECT_EQ(bytes[i], i + 1);
  ByteReader in(bytes);
  EXPECT_EQ(in.u8("a"), 1u);
  EXPECT_EQ(in.u16("b"), 0x0302u);
  EXPECT_EQ(in.u32("c"), 0x07060504u);
  EXPECT_EQ(in.u64("d"), 0x0F0E0D0C0B0A0908u);
}

TEST(Bits, SmallestExample) {
  // 101 in bits 0 to 2, 00011 in bits 3 to 7, then 1: 0001'1101 and 0000'0001.
  Bytes bytes(2 + 8);
  BitWriter out(bytes.data());
  out.put(0b101, 3);
  out.put(0b00011, 5);
  out.put(1, 1);
  ASSERT_EQ(out.finish(), 2u);
  EXPECT_EQ(bytes[0], 0x1D);
  EXPECT_EQ(bytes[1], 0x01);
}

TEST(Bits, FieldsOfEveryWidthRoundTripAtEveryPosition) {
  std::mt19937_64 random(1);
  for (unsigned trial = 0; trial < 500; ++trial) {
    std::vector<std::pair<std::uint64_t, unsigned>> fields;
    std::size_t total = 0;
    for (unsigned k = 0; k < 60; ++k) {
      const unsigned bits = trial < 57 ? trial : static_cast<unsigned>(random() % 57);
      fields.emplace_back(random() & ((std::uint64_t{1} << bits) - 1), bits);
      total += bits;
    }
    Bytes room((total + 7) / 8 + 8);
    BitWriter out(room.data());
    for (const auto& [value, bits] : fields) out.put(value, bits);
    const std::size_t size = out.finish();
    ASSERT_EQ(size, (total + 7) / 8);
    const Bytes bytes(room.begin(), room.begin() + static_cast<std::ptrdiff_t>(size));
    BitReader in(bytes);
    for (const auto& [value, bits] : fields) ASSERT_EQ(in.get(bits), value);
    EXPECT_EQ(in.position(), total);
    EXPECT_FALSE(in.overrun());
    EXPECT_TRUE(in.at_exact_end());
  }
}

TEST(Bits, BitsBehindTheEndReadAsZeroAndAreNoticed) {
  const Bytes bytes{0xFF};
  BitReader in(bytes);
  EXPECT_EQ(in.get(12), 0xFFu);
  EXPECT_TRUE(in.overrun());
  EXPECT_FALSE(in.at_exact_end());
  EXPECT_EQ(in.get(56), 0u);
}

TEST(Bits, PaddingMustBeZeroAndLessThanAByte) {
  const Bytes dirty{0x11};
  BitReader in(dirty);
  in.skip(4);
  EXPECT_FALSE(in.at_exact_end());
  const Bytes clean{0x01};
  BitReader exact(clean);
  exact.skip(4);
  EXPECT_TRUE(exact.at_exact_end());
  const Bytes longer{0x01, 0x00};
  BitReader early(longer);
  early.skip(4);
  EXPECT_FALSE(early.at_exact_end());
  EXPECT_TRUE(BitReader(ByteSpan{}).at_exact_end());
}

TEST(SlackBits, AgreeWithTheCheckedReaderWhateverStandsBehind) {
  std::mt19937_64 random(2);
  for (unsigned trial = 0; trial < 500; ++trial) {
    const std::size_t size = random() % 40;
    Bytes bytes(size + kBitSlack, 0xFF);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(random());
    const ByteSpan span = ByteSpan(bytes).first(size);
    BitReader checked(span);
    SlackBitReader quick(span);
    while (checked.position() <= 8 * size) {
      EXPECT_EQ(quick.at_exact_end(), checked.at_exact_end());
      const auto bits = static_cast<unsigned>(random() % 57);
      const std::uint64_t value = quick.get(bits);
      const bool within = checked.position() + bits <= 8 * size;
      EXPECT_TRUE(!within || value == checked.peek(bits));
      checked.skip(bits);
    }
    EXPECT_FALSE(quick.at_exact_end());
    for (int k = 0; k < 10; ++k) quick.get(56);  // reads nothing past the slack
    EXPECT_FALSE(quick.at_exact_end());
  }
  const Bytes slack(kBitSlack, 0xFF);
  EXPECT_TRUE(SlackBitReader(ByteSpan(slack).first(0)).at_exact_end());
}

}  // namespace
}  // namespace gradwire
