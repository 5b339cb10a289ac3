#include "entropy_testing.h"
#include "stages/entropy/ans.h"

namespace gradwire::entropy {
namespace {

using testing::Encoded;
using testing::Symbols;

Table ans_table(const Values& frequencies, unsigned alphabet, bool pairs = false) {
  Table table;
  table.alphabet = static_cast<std::uint16_t>(alphabet);
  table.coder = CoderId::ans;
  table.pairs = pairs;
  table.values = frequencies;
  return table;
}

/// Owner and offset of every slot, told as docs/format.md 4.3 tells it.
struct NaiveSlots {
  std::array<unsigned, kAnsSlots> symbol{};
  std::array<unsigned, kAnsSlots> offset{};

  NaiveSlots(const Values& frequencies, bool alias) {
    unsigned slot = 0;
    for (unsigned s = 0; s < 256; ++s) {
      for (unsigned k = 0; k < frequencies[s]; ++k) symbol[slot++] = s;
    }
    if (alias) lay_out_buckets(frequencies);
    std::array<unsigned, 256> seen{};
    for (slot = 0; slot < kAnsSlots; ++slot) offset[slot] = seen[symbol[slot]]++;
  }

  void lay_out_buckets(const Values& frequencies) {
    std::array<unsigned, 16> left{};
    std::vector<unsigned> small, large;
    for (unsigned s = 0; s < 16; ++s) {
      left[s] = frequencies[s];
      (left[s] < 256 ? small : large).push_back(s);
    }
    while (!small.empty()) {
      const unsigned b = small.back();
      small.pop_back();
      const unsigned t = large.back();
      for (unsigned j = 0; j < 256; ++j) symbol[256 * b + j] = j < left[b] ? b : t;
      left[t] -= 256 - left[b];
      if (left[t] < 256) {
        large.pop_back();
        small.push_back(t);
      }
    }
    for (const unsigned b : large) std::fill_n(symbol.begin() + 256 * b, 256, b);
  }
};

Symbols naive_decode(const Table& table, const Encoded& encoded, std::size_t units, bool alias) {
  const NaiveSlots slots(table.values, alias);
  const std::size_t lanes = std::min<std::size_t>(units, 32);
  std::vector<std::uint64_t> states(lanes);
  for (std::size_t k = 0; k < lanes; ++k) states[k] = load<std::uint32_t>(&encoded.bytes[4 * k]);
  std::size_t at = 4 * lanes;
  Symbols result;
  for (std::size_t i = 0; i < units; ++i) {
    std::uint64_t& state = states[i % 32];
    const std::uint64_t slot = state & 4095;
    const unsigned s = slots.symbol[slot];
    state = table.values[s] * (state >> 12) + slots.offset[slot];
    if (state < 32768) {
      state = state << 16 | load<std::uint16_t>(&encoded.bytes[at]);
      at += 2;
    }
    result.push_back(static_cast<std::uint8_t>(s));
  }
  EXPECT_EQ(at, encoded.size());
  for (const auto state : states) EXPECT_EQ(state, 32768u);
  return result;
}

TEST(Ans, SmallestExample) {
  // Symbol 20 of frequency 2048 behind symbol 0 of the same: slots 2048 to 4095, contiguous. The
  // state 2^15 = 16 x 2048 + 0 becomes 16 x 4096 + 2048 + 0, a word is not needed.
  Values frequencies{};
  frequencies[0] = frequencies[20] = 2048;
  const Table table = ans_table(frequencies, 21);
  const Encoded encoded = testing::encode(table, Symbols{20}, 3);
  ASSERT_EQ(encoded.sizes, std::vector<std::uint16_t>{4});
  EXPECT_EQ(load<std::uint32_t>(encoded.bytes.data()), 16u * 4096 + 2048);
  testing::expect_round_trip(table, Symbols{20}, 3);
}

TEST(Ans, AgreesWithTheDecoderOfTheFormat) {
  std::mt19937_64 random(11);
  for (const unsigned alphabet : {1u, 2u, 5u, 16u, 17u, 256u}) {
    for (const double skew : {1.0, 3.0, 9.0}) {
      const Symbols symbols = testing::random_symbols(random, 777, alphabet, skew);
      const Table table = testing::table_for(symbols, alphabet, CoderId::ans, false);
      const Encoded encoded = testing::encode(table, symbols, 0);
      EXPECT_EQ(naive_decode(table, encoded, symbols.size(), alphabet <= 16), symbols);
    }
  }
}

TEST(Ans, LoneSymbolTakesItsStatesOnly) {
  Values frequencies{};
  frequencies[9] = 4096;
  const Encoded encoded = testing::encode(ans_table(frequencies, 16), Symbols(500, 9), 0);
  EXPECT_EQ(encoded.size(), 32u * 4);
  testing::expect_round_trip(ans_table(frequencies, 16), Symbols(500, 9), 0);
  EXPECT_EQ(testing::encode(ans_table(frequencies, 16), Symbols{}, 0).size(), 0u);
}

TEST(Ans, AliasSlotsOfTwoHalves) {
  // Small: 2 to 15, large: 0, 1. Buckets 15 down to 8 take from symbol 1 until it is empty; its own
  // bucket 1, then 7 down to 2 take from symbol 0, which keeps bucket 0.
  Values frequencies{};
  frequencies[0] = frequencies[1] = 2048;
  const SlotOrder slots = slot_order(ans_table(frequencies, 16));
  for (unsigned i = 0; i < kAnsSlots; ++i) ASSERT_EQ(slots[i], i);
}

TEST(Ans, AliasSlotsOfThreeQuarters) {
  // Symbol 0: 3072 = 12 buckets, symbol 5: 1024 = 4. Bucket 15 to 12 take from 5 (the top of large)
  // and empty it; then buckets 5, 11 to 6 and 4 to 1 take from 0.
  Values frequencies{};
  frequencies[0] = 3072;
  frequencies[5] = 1024;
  const SlotOrder slots = slot_order(ans_table(frequencies, 16));
  for (unsigned i = 0; i < kAnsSlots; ++i) ASSERT_EQ(slots[i], i);
  // With 128 more for symbol 5, bucket 11 is shared: 5 gives 256 slots to 15 .. 12, then is left
  // with 128, so its own bucket has divider 128 and symbol 0 above it.
  frequencies[0] = 2944;
  frequencies[5] = 1152;
  const SlotOrder shared = slot_order(ans_table(frequencies, 16));
  EXPECT_EQ(shared[2944], 5u * 256);
  EXPECT_EQ(shared[2944 + 127], 5u * 256 + 127);
  EXPECT_EQ(shared[2944 + 128], 12u * 256);
}

TEST(Ans, SlotsAreAPermutationInAscendingOrderForEachSymbol) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<std::uint64_t> weights(1 + random() % 16);
    for (auto& weight : weights) weight = random() >> (20 + random() % 44);
    weights[0] += 1;
    const Values frequencies = normalised_frequencies(weights);
    const SlotOrder slots = slot_order(ans_table(frequencies, 16));
    std::vector<bool> seen(kAnsSlots);
    std::size_t i = 0;
    for (std::size_t s = 0; s < 16; ++s) {
      for (unsigned offset = 0; offset < frequencies[s]; ++offset, ++i) {
        ASSERT_FALSE(seen[slots[i]]);
        seen[slots[i]] = true;
        ASSERT_TRUE(offset == 0 || slots[i - 1] < slots[i]);
      }
    }
    ASSERT_EQ(i, kAnsSlots);
  }
}

TEST(Ans, PairsAndWideAlphabetsHaveContiguousSlots) {
  Values frequencies{};
  frequencies[3] = 4000;
  frequencies[7] = 96;
  const SlotOrder wide = slot_order(ans_table(frequencies, 17));  // whatever symbols are used
  for (unsigned i = 0; i < kAnsSlots; ++i) ASSERT_EQ(wide[i], i);
  const SlotOrder pairs = slot_order(ans_table(frequencies, 16, true));
  for (unsigned i = 0; i < kAnsSlots; ++i) ASSERT_EQ(pairs[i], i);
}

struct Shape {
  unsigned alphabet;
  bool pairs;
  double skew;
};

class AnsShapes : public ::testing::TestWithParam<Shape> {};

TEST_P(AnsShapes, EveryLengthComesBack) {
  const auto [alphabet, pairs, skew] = GetParam();
  std::mt19937_64 random(alphabet);
  for (std::size_t n = 0; n < 200; ++n) {
    const Symbols symbols = testing::random_symbols(random, n, alphabet, skew);
    const Table table = testing::table_for(symbols, alphabet, CoderId::ans, pairs);
    ASSERT_NO_FATAL_FAILURE(testing::expect_round_trip(table, symbols, 3)) << n;
  }
}

TEST_P(AnsShapes, WholeChunkIsWithinTwoHundredthsOfABitOfTheEntropy) {
  const auto [alphabet, pairs, skew] = GetParam();
  std::mt19937_64 random(alphabet + 1);
  const std::size_t n = 32768;  // so that a uniform alphabet of 256 fits a u16 size
  const Symbols symbols = testing::random_symbols(random, n, alphabet, skew);
  const Table table = testing::table_for(symbols, alphabet, CoderId::ans, pairs);
  testing::expect_round_trip(table, symbols, 3);
  const auto counts = testing::counts_of(symbols, alphabet, pairs);
  const auto bits = static_cast<double>(8 * testing::encode(table, symbols, 3).size());
  // 32 states of 32 bits are 0.0313 bit a symbol here, 0.0156 at 65536 symbols.
  EXPECT_LT(bits - 32 * 32, testing::entropy_bits(counts) + 0.02 * n);
}

TEST_P(AnsShapes, DamageNeverLeavesTheBuffers) {
  const auto [alphabet, pairs, skew] = GetParam();
  std::mt19937_64 random(alphabet + 2);
  for (const std::size_t n : {1, 31, 33, 500, 3001}) {
    const Symbols symbols = testing::random_symbols(random, n, alphabet, skew);
    const Table table = testing::table_for(symbols, alphabet, CoderId::ans, pairs);
    testing::expect_safe_when_damaged(table, symbols, 3, 256, 100);
  }
}

INSTANTIATE_TEST_SUITE_P(All, AnsShapes,
                         ::testing::Values(Shape{2, false, 1}, Shape{3, false, 9},
                                           Shape{16, false, 1}, Shape{16, false, 4},
                                           Shape{17, false, 2}, Shape{126, false, 3},
                                           Shape{256, false, 2}, Shape{2, true, 4},
                                           Shape{16, true, 3}));

TEST(Ans, FullChunkOfSixteenSymbolsIsWithinTwoHundredthsOfABit) {
  std::mt19937_64 random(8);
  const Symbols symbols = testing::random_symbols(random, 65536, 16, 3);
  const Table table = testing::table_for(symbols, 16, CoderId::ans, false);
  const auto bits = static_cast<double>(8 * testing::encode(table, symbols, 3).size());
  EXPECT_LT(bits, testing::entropy_bits(testing::counts_of(symbols, 16, false)) + 0.02 * 65536);
}

TEST(Ans, EveryFrequencyComesBack) {
  // Exact division for each frequency: both symbols in turn from states of all sizes.
  std::mt19937_64 random(9);
  for (unsigned frequency = 1; frequency < 4096; frequency += frequency < 64 ? 1 : 61) {
    Values frequencies{};
    frequencies[0] = static_cast<std::uint16_t>(frequency);
    frequencies[1] = static_cast<std::uint16_t>(4096 - frequency);
    testing::expect_round_trip(ans_table(frequencies, 16),
                               testing::random_symbols(random, 600, 2, 1), 0);
  }
}

TEST(Ans, StatesAndWordsMustBeExact) {
  std::mt19937_64 random(10);
  const Symbols symbols = testing::random_symbols(random, 400, 16, 2);
  const Table table = testing::table_for(symbols, 16, CoderId::ans, false);
  const auto decoder = make_decoder(table);
  const Encoded good = testing::encode(table, symbols, 0);
  Symbols decoded(symbols.size());
  ASSERT_TRUE(testing::decode(*decoder, good, 0, decoded));

  for (const int change : {-4, -2, -1, 1, 2}) {
    Encoded resized = good;
    resized.sizes[0] = static_cast<std::uint16_t>(resized.sizes[0] + change);
    EXPECT_FALSE(testing::decode(*decoder, resized, 0, decoded)) << change;
  }
  for (const std::uint32_t state : {0u, 32767u, 1u << 31, UINT32_MAX}) {
    Encoded bad = good;
    store(bad.bytes.data() + 4 * 7, state);
    EXPECT_FALSE(testing::decode(*decoder, bad, 0, decoded)) << state;
  }
  Encoded wrong = good;  // in range, but it does not come back to 2^15
  store(wrong.bytes.data(), load<std::uint32_t>(good.bytes.data()) ^ 1u << 14);
  EXPECT_FALSE(testing::decode(*decoder, wrong, 0, decoded));
}

TEST(Ans, PhantomOfAnOddPairMustBeZero) {
  const Table table = testing::table_for({1, 0, 1, 1}, 16, CoderId::ans, true);
  const Encoded encoded = testing::encode(table, Symbols{1, 1}, 0);
  Symbols decoded(1);
  EXPECT_FALSE(testing::decode(*make_decoder(table), encoded, 0, decoded));
}

}  // namespace
}  // namespace gradwire::entropy
