#include "entropy_testing.h"
#include "stages/entropy/huffman.h"

namespace gradwire::entropy {
namespace {

using testing::Encoded;
using testing::Symbols;

/// The decoder of docs/format.md 4.2 bit by bit; what it cannot read ends the result early.
Symbols naive_decode(const Values& lengths, const std::uint8_t* src, std::size_t bytes,
                     std::size_t units) {
  Symbols result;
  std::size_t at = 0;
  while (result.size() < units) {
    unsigned code = 0;
    unsigned first = 0;
    for (unsigned length = 1; length <= kMaxCodeLength && at < 8 * bytes; ++length, ++at) {
      code = code << 1 | (src[at / 8] >> (at & 7) & 1);
      first <<= 1;
      unsigned index = 0;
      bool found = false;
      for (unsigned s = 0; s < 256 && !found; ++s) {
        if (lengths[s] != length) continue;
        found = code == first + index++;
        if (found) result.push_back(static_cast<std::uint8_t>(s));
      }
      if (found) {
        ++at;
        break;
      }
      first += index;
    }
    if (at >= 8 * bytes) break;
  }
  return result;
}

TEST(Huffman, SmallestExample) {
  // Lengths 1 2 3 3: codes 0, 10, 110, 111. Symbols 0 1 2 3 are the bits 0 10 110 111, first bit
  // lowest: 1101'1010 and 1.
  const Values lengths{1, 2, 3, 3};
  const Symbols symbols{0, 1, 2, 3};
  Table table;
  table.values = lengths;
  const Encoded encoded = testing::encode(table, symbols, 0);
  ASSERT_EQ(encoded.sizes, std::vector<std::uint16_t>{2});
  EXPECT_EQ(encoded.bytes[0], 0xDA);
  EXPECT_EQ(encoded.bytes[1], 0x01);
  testing::expect_round_trip(table, symbols, 0);
}

TEST(Huffman, SegmentsAreMultiplesOf32) {
  EXPECT_EQ(segment_symbols(65536, 3), 8192u);
  EXPECT_EQ(segment_symbols(1, 3), 32u);
  EXPECT_EQ(segment_symbols(257, 3), 64u);
  EXPECT_EQ(segment_symbols(0, 0), 0u);
}

TEST(Huffman, KraftSumTellsCompleteCodes) {
  EXPECT_TRUE(is_complete_code(Values{1, 2, 3, 3}));
  EXPECT_FALSE(is_complete_code(Values{1, 2, 3}));
  EXPECT_FALSE(is_complete_code(Values{1, 1, 1}));
  EXPECT_FALSE(is_complete_code(Values{}));
}

TEST(Huffman, AgreesWithTheBitByBitDecoder) {
  std::mt19937_64 random(4);
  for (const bool pairs : {false, true}) {
    for (const unsigned alphabet : {2u, 3u, 16u, 40u, 256u}) {
      if (pairs && alphabet > 16) continue;
      const Symbols symbols = testing::random_symbols(random, 999, alphabet, 3);
      const Table table = testing::table_for(symbols, alphabet, CoderId::huffman, pairs);
      const Encoded encoded = testing::encode(table, symbols, 0);
      Symbols naive =
          naive_decode(table.values, encoded.bytes.data(), encoded.size(), pairs ? 500 : 999);
      if (pairs) {
        Symbols single;
        for (const auto pair : naive) {
          single.push_back(pair & 15);
          single.push_back(pair >> 4);
        }
        EXPECT_EQ(single.back(), 0) << "phantom";
        single.pop_back();
        naive = single;
      }
      EXPECT_EQ(naive, symbols);
    }
  }
}

struct Shape {
  unsigned alphabet;
  bool pairs;
  double skew;
};

class HuffmanShapes : public ::testing::TestWithParam<Shape> {};

TEST_P(HuffmanShapes, EveryLengthAndStreamCountComesBack) {
  const auto [alphabet, pairs, skew] = GetParam();
  std::mt19937_64 random(alphabet);
  std::vector<std::size_t> counts;
  for (std::size_t n = 0; n <= 80; ++n) counts.push_back(n);
  for (const std::size_t around : {255, 1024, 8192}) {
    for (std::size_t n = around - 2; n <= around + 2; ++n) counts.push_back(n);
  }
  for (const std::size_t n : counts) {
    const Symbols symbols = testing::random_symbols(random, n, alphabet, skew);
    const Table table = testing::table_for(symbols, alphabet, CoderId::huffman, pairs);
    for (unsigned streams_log2 = 0; streams_log2 <= kMaxStreamsLog2; ++streams_log2) {
      ASSERT_NO_FATAL_FAILURE(testing::expect_round_trip(table, symbols, streams_log2))
          << n << " symbols, " << (1u << streams_log2) << " streams";
    }
  }
}

TEST_P(HuffmanShapes, WholeChunkComesBack) {
  const auto [alphabet, pairs, skew] = GetParam();
  std::mt19937_64 random(alphabet + 1);
  for (const std::size_t n : {65535, 65536}) {
    const Symbols symbols = testing::random_symbols(random, n, alphabet, skew);
    const Table table = testing::table_for(symbols, alphabet, CoderId::huffman, pairs);
    testing::expect_round_trip(table, symbols, 3);
    testing::expect_round_trip(table, symbols, 5);
  }
}

TEST_P(HuffmanShapes, DamageNeverLeavesTheBuffers) {
  const auto [alphabet, pairs, skew] = GetParam();
  std::mt19937_64 random(alphabet + 2);
  for (const std::size_t n : {1, 33, 500, 3001}) {
    const Symbols symbols = testing::random_symbols(random, n, alphabet, skew);
    const Table table = testing::table_for(symbols, alphabet, CoderId::huffman, pairs);
    testing::expect_safe_when_damaged(table, symbols, 0, 256, 100);
    testing::expect_safe_when_damaged(table, symbols, 3, 256, 100);
  }
}

INSTANTIATE_TEST_SUITE_P(All, HuffmanShapes,
                         ::testing::Values(Shape{2, false, 1}, Shape{3, false, 9},
                                           Shape{16, false, 1}, Shape{16, false, 4},
                                           Shape{17, false, 2}, Shape{126, false, 3},
                                           Shape{256, false, 1}, Shape{256, false, 6},
                                           Shape{2, true, 4}, Shape{9, true, 2}, Shape{16, true, 1},
                                           Shape{16, true, 5}));

TEST(Huffman, OneSymbolTakesABit) {
  const Symbols symbols(1000, 11);
  const Table table = testing::table_for(symbols, 16, CoderId::huffman, false);
  testing::expect_round_trip(table, symbols, 3);
  EXPECT_EQ(testing::encode(table, symbols, 0).size(), 125u);
  const Table pairs = testing::table_for(symbols, 16, CoderId::huffman, true);
  testing::expect_round_trip(pairs, symbols, 3);
  EXPECT_EQ(testing::encode(pairs, symbols, 0).size(), 63u);
}

TEST(Huffman, EveryAlphabetComesBack) {
  std::mt19937_64 random(5);
  for (unsigned alphabet = 1; alphabet <= 256; ++alphabet) {
    const Symbols symbols = testing::random_symbols(random, 700, alphabet, 2.5);
    testing::expect_round_trip(testing::table_for(symbols, alphabet, CoderId::huffman, false),
                               symbols, 2);
  }
}

TEST(Huffman, CodesOfElevenBitsComeBack) {
  // Lengths 1 to 11 and 11: the longest codes one behind the other fill the encoder's accumulator.
  Table table;
  for (unsigned s = 0; s < 12; ++s)
    table.values[s] = static_cast<std::uint16_t>(std::min(s + 1, 11u));
  ASSERT_TRUE(is_complete_code(table.values));
  std::mt19937_64 random(6);
  for (const unsigned lowest : {0u, 9u, 10u}) {
    Symbols symbols(5000);
    for (auto& s : symbols) s = static_cast<std::uint8_t>(lowest + random() % (12 - lowest));
    testing::expect_round_trip(table, symbols, 3);
  }
}

TEST(Huffman, StreamMustEndInItsLastByteWithZeroPadding) {
  const Symbols symbols{0, 1, 2, 3};
  Table table;
  table.values = Values{1, 2, 3, 3};
  const auto decoder = make_decoder(table);
  const Encoded good = testing::encode(table, symbols, 0);
  Symbols decoded(4);

  Encoded longer = good;
  longer.sizes[0] = 3;
  EXPECT_FALSE(testing::decode(*decoder, longer, 0, decoded));
  Encoded shorter = good;
  shorter.sizes[0] = 1;
  EXPECT_FALSE(testing::decode(*decoder, shorter, 0, decoded));
  Encoded padded = good;
  padded.bytes[1] = 0x81;
  EXPECT_FALSE(testing::decode(*decoder, padded, 0, decoded));
}

TEST(Huffman, StreamsWithoutSymbolsMustBeEmpty) {
  const Symbols symbols(40, 1);
  const Table table = testing::table_for({0, 1}, 2, CoderId::huffman, false);
  Encoded encoded = testing::encode(table, symbols, 2);
  ASSERT_EQ(encoded.sizes, (std::vector<std::uint16_t>{4, 1, 0, 0}));
  encoded.sizes[3] = 1;
  Symbols decoded(40);
  EXPECT_FALSE(testing::decode(*make_decoder(table), encoded, 2, decoded));
}

TEST(Huffman, WrongNumberOfStreamsIsRefused) {
  const Symbols symbols(40, 1);
  const Table table = testing::table_for({0, 1}, 2, CoderId::huffman, false);
  const Encoded encoded = testing::encode(table, symbols, 2);
  Symbols decoded(40);
  EXPECT_FALSE(testing::decode(*make_decoder(table), encoded, 3, decoded));
}

TEST(Huffman, PhantomOfAnOddPairMustBeZero) {
  const Table table = testing::table_for({1, 0, 1, 1}, 16, CoderId::huffman, true);
  const Encoded encoded = testing::encode(table, Symbols{1, 1}, 0);
  Symbols decoded(1);
  EXPECT_FALSE(testing::decode(*make_decoder(table), encoded, 0, decoded));
}

TEST(Huffman, StreamTooLongForItsSizeFieldIsReported) {
  Symbols symbols(65536);
  for (std::size_t i = 0; i < symbols.size(); ++i) symbols[i] = static_cast<std::uint8_t>(i);
  Table table = testing::table_for(symbols, 256, CoderId::huffman, false);
  std::vector<std::uint8_t> dst(encode_room(symbols.size()));
  std::uint16_t size = 0;
  // 8 bits each make 65536 bytes, one more than a u16 can say.
  EXPECT_EQ(make_encoder(table)->encode(symbols.data(), symbols.size(), 0, dst.data(), &size),
            SIZE_MAX);
}

}  // namespace
}  // namespace gradwire::entropy
