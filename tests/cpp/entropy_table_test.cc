#include "entropy_testing.h"
#include "stages/entropy/huffman.h"
#include "stages/entropy/static_tables.h"
#include "stages/entropy/table.h"

namespace gradwire::entropy {
namespace {

using testing::Symbols;

Bytes written(const Table& table) {
  Bytes bytes;
  ByteWriter out(bytes);
  write_table(table, out);
  return bytes;
}

Table read_whole(const Bytes& bytes) {
  ByteReader in(bytes);
  const Table table = read_table(in);
  in.expect_end("table");
  return table;
}

ErrorKind kind_of(const Bytes& bytes) {
  return testing::kind_of_error([&] { read_whole(bytes); });
}

TEST(Table, SmallestExample) {
  // dynamic huffman, base -1; symbols 1 to 4 with lengths 1 2 3 3, low nibble first.
  Table table;
  table.base = -1;
  table.values = Values{0, 1, 2, 3, 3};
  const Bytes bytes{0x00, 0x01, 1, 4, 0x21, 0x33};
  EXPECT_EQ(written(table), bytes);
  const Table read = read_whole(bytes);
  EXPECT_EQ(read.values, table.values);
  EXPECT_EQ(read.base, -1);
  EXPECT_EQ(read.coder, CoderId::huffman);
  EXPECT_FALSE(read.pairs);
}

TEST(Table, SmallestAnsExample) {
  // Frequencies 1 and 4095 of symbols 2 and 3: the bits of 0x001 and 0xFFF, low ones first.
  Table table;
  table.coder = CoderId::ans;
  table.values = Values{0, 0, 1, 4095};
  EXPECT_EQ(written(table), (Bytes{0x04, 0, 2, 3, 0x01, 0xF0, 0xFF}));
  table.values = Values{0, 0, 4096};
  EXPECT_EQ(written(table), (Bytes{0x04, 0, 2, 2})) << "a lone symbol has no field";
  EXPECT_EQ(read_whole({0x04, 0, 2, 2}).values, table.values);
}

TEST(Table, FixedAndGennormAreAFewBytes) {
  Table table;
  table.source = Source::fixed;
  table.pairs = true;
  table.static_id = 300;
  EXPECT_EQ(written(table), (Bytes{0x09, 0, 0xAC, 0x02}));
  EXPECT_EQ(read_whole(written(table)).static_id, 300u);
  table = {};
  table.source = Source::gennorm;
  table.coder = CoderId::ans;
  table.gennorm = {9, 33, 0};
  EXPECT_EQ(written(table), (Bytes{0x06, 0, 9, 33}));
  EXPECT_EQ(read_whole(written(table)).gennorm.scale, 33);
  table.gennorm = {9 | 128, 33, 0x1234};
  EXPECT_EQ(written(table), (Bytes{0x06, 0, 9 | 128, 33, 0x34, 0x12}));
  EXPECT_EQ(read_whole(written(table)).gennorm.more, 0x1234);
  table.gennorm = {9 | 16 | 128, 33, 200};
  EXPECT_EQ(written(table), (Bytes{0x06, 0, 9 | 16 | 128, 33, 200}));
  EXPECT_EQ(read_whole(written(table)).gennorm.more, 200);
}

TEST(Table, EveryDynamicTableComesBack) {
  std::mt19937_64 random(1);
  for (unsigned alphabet = 1; alphabet <= 256; ++alphabet) {
    for (const CoderId coder : {CoderId::huffman, CoderId::ans}) {
      const Symbols symbols = testing::random_symbols(random, 400, alphabet, 2);
      Table table = testing::table_for(symbols, alphabet, coder, false);
      table.base = static_cast<std::int32_t>(random() % (2 * kMaxBase + 1)) - kMaxBase;
      const Table read = read_whole(written(table));
      ASSERT_EQ(read.values, table.values);
      ASSERT_EQ(read.base, table.base);
      ASSERT_EQ(read.coder, coder);
    }
  }
}

TEST(Table, BadFormsAreRefused) {
  EXPECT_EQ(kind_of({0x10, 0, 0, 1, 0x11}), ErrorKind::corrupt) << "reserved bit";
  EXPECT_EQ(kind_of({0x03, 0, 0, 1, 0x11}), ErrorKind::unsupported) << "source 3";
  EXPECT_EQ(kind_of({0x00, 0x82, 0x80, 0x08, 0, 1, 0x11}), ErrorKind::corrupt) << "base 65537";
  EXPECT_EQ(kind_of({0x00, 0, 2, 1, 0x11}), ErrorKind::corrupt) << "first > last";
}

TEST(Table, BadCodesAreRefused) {
  EXPECT_EQ(kind_of({0x00, 0, 0, 2, 0x11, 0x01}), ErrorKind::corrupt) << "over-full";
  EXPECT_EQ(kind_of({0x00, 0, 0, 1, 0x21}), ErrorKind::corrupt) << "incomplete";
  EXPECT_EQ(kind_of({0x00, 0, 0, 0, 0x01}), ErrorKind::corrupt) << "a single code of one bit";
  EXPECT_EQ(kind_of({0x00, 0, 0, 1, 0x1C}), ErrorKind::corrupt) << "length 12";
  EXPECT_EQ(kind_of({0x00, 0, 0, 2, 0x21, 0x12}), ErrorKind::corrupt) << "padding nibble";
  EXPECT_EQ(kind_of({0x04, 0, 2, 3, 0x01, 0xE0, 0xFF}), ErrorKind::corrupt) << "sum 4095";
  EXPECT_EQ(kind_of({0x04, 0, 0, 2, 0x01, 0xE0, 0xFF, 0x01, 0x10}), ErrorKind::corrupt)
      << "padding";
}

TEST(Table, EveryPrefixIsTruncated) {
  const Symbols symbols{0, 1, 2, 2, 3, 3, 3, 5};
  for (const CoderId coder : {CoderId::huffman, CoderId::ans}) {
    Table table = testing::table_for(symbols, 16, coder, false);
    table.base = 1000;
    const Bytes bytes = written(table);
    for (std::size_t n = 0; n < bytes.size(); ++n) {
      const auto end = bytes.begin() + static_cast<std::ptrdiff_t>(n);
      EXPECT_EQ(kind_of({bytes.begin(), end}), ErrorKind::truncated) << n;
    }
  }
}

TEST(Table, RandomBytesAreReadOrRefused) {
  testing::expect_only_refusals([](ByteReader& in) { read_table(in); }, 20000, 16);
}

ErrorKind kind_of_resolving(Table table, unsigned alphabet) {
  try {
    resolve(table, alphabet, "tables, table 0");
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).rfind("tables, table 0: ", 0), 0u) << error.what();
    return error.kind();
  }
  return ErrorKind::io;
}

TEST(Table, ResolvingChecksTheAlphabet) {
  Table table;
  table.values = Values{1, 0, 1};
  EXPECT_EQ(kind_of_resolving(table, 3), ErrorKind::io);
  EXPECT_EQ(kind_of_resolving(table, 2), ErrorKind::corrupt);
  table.pairs = true;
  EXPECT_EQ(kind_of_resolving(table, 3), ErrorKind::io);
  EXPECT_EQ(kind_of_resolving(table, 17), ErrorKind::corrupt) << "pairs over more than 16 symbols";
  table.values = {};
  table.values[0x00] = table.values[0x30] = 1;
  EXPECT_EQ(kind_of_resolving(table, 4), ErrorKind::io);
  EXPECT_EQ(kind_of_resolving(table, 3), ErrorKind::corrupt) << "second of a pair is symbol 3";
}

TEST(Table, UnknownStaticTableIsUnsupported) {
  Table table;
  table.source = Source::fixed;
  table.static_id = (std::uint64_t{1} << 62) + 5;
  EXPECT_EQ(kind_of_resolving(table, 16), ErrorKind::unsupported);
}

TEST(Table, StaticTablesAreSoundAndFitTheirAlphabet) {
  std::uint64_t previous = 0;
  for (const StaticTable& family : static_tables()) {
    EXPECT_GT(family.id, previous);
    previous = family.id;
    unsigned sum = 0;
    for (const auto frequency : family.frequencies) sum += frequency;
    EXPECT_EQ(sum, 4096u) << family.id;
    EXPECT_TRUE(is_complete_code(static_code(family).lengths)) << family.id;
    Table table;
    table.source = Source::fixed;
    table.static_id = family.id;
    table.pairs = family.pairs;
    EXPECT_EQ(kind_of_resolving(table, family.alphabet), ErrorKind::io);
    EXPECT_EQ(kind_of_resolving(table, family.alphabet + 1), ErrorKind::corrupt);
    EXPECT_EQ(find_static_table(family.id), &family);
  }
  EXPECT_EQ(find_static_table(0), nullptr);
}

TEST(CodedBits, EqualsWhatHuffmanWrites) {
  std::mt19937_64 random(2);
  for (const bool pairs : {false, true}) {
    for (std::size_t n = 1; n < 60; ++n) {
      const Symbols symbols = testing::random_symbols(random, n, 16, 2);
      const Table table = testing::table_for(symbols, 16, CoderId::huffman, pairs);
      const auto single = testing::counts_of(symbols, 16, false);
      const auto joint = testing::counts_of(symbols, 16, true);
      const std::uint64_t bits = coded_bits({single, joint}, table);
      ASSERT_EQ((bits + 7) / 8, testing::encode(table, symbols, 0).size());
    }
  }
}

TEST(CodedBits, IsCloseToWhatAnsWrites) {
  std::mt19937_64 random(3);
  const Symbols symbols = testing::random_symbols(random, 65536, 16, 3);
  for (const bool pairs : {false, true}) {
    const Table table = testing::table_for(symbols, 16, CoderId::ans, pairs);
    const auto single = testing::counts_of(symbols, 16, false);
    const auto joint = testing::counts_of(symbols, 16, true);
    const std::size_t bytes = testing::encode(table, symbols, 0).size();
    // A state ends with 15 to 31 bits of what it took in; 32 of them are counted.
    const auto counted = static_cast<double>(coded_bits({single, joint}, table));
    EXPECT_NEAR(static_cast<double>(8 * bytes), counted, 32 * 16);
  }
}

TEST(CodedBits, SymbolWithoutACodeCannotBeCoded) {
  const std::vector<std::uint32_t> counts{1, 2, 3};
  Table table;
  table.values = Values{1, 1};
  EXPECT_EQ(coded_bits({counts, {}}, table), UINT64_MAX);
  table.coder = CoderId::ans;
  table.values = Values{2048, 2048};
  EXPECT_EQ(coded_bits({counts, {}}, table), UINT64_MAX);
  table.pairs = true;
  EXPECT_EQ(coded_bits({counts, {}}, table), UINT64_MAX) << "no counts of pairs";
}

TEST(ChooseTable, TakesTheCheapestOfAllForms) {
  std::mt19937_64 random(4);
  for (const std::size_t n : {40, 300, 5000, 65536}) {
    const Symbols symbols = testing::random_symbols(random, n, 16, 3);
    const auto single = testing::counts_of(symbols, 16, false);
    const auto joint = testing::counts_of(symbols, 16, true);
    const Counts counts{single, joint};
    const Choice best = choose_table(counts, {.gennorm = true, .ans = true});
    EXPECT_EQ(best.bits, coded_bits(counts, best.table) + 8 * written(best.table).size());
    for (const CoderId coder : {CoderId::huffman, CoderId::ans}) {
      for (const bool pairs : {false, true}) {
        const Table other = testing::table_for(symbols, 16, coder, pairs);
        EXPECT_LE(best.bits, coded_bits(counts, other) + 8 * written(other).size());
      }
    }
    testing::expect_round_trip(best.table, symbols, 3);
  }
}

TEST(ChooseTable, TakesPairsWhereNeighboursAreAlike) {
  Symbols symbols(60000);
  std::mt19937_64 random(5);
  for (std::size_t i = 0; i < symbols.size(); i += 2) {
    symbols[i] = symbols[i + 1] = static_cast<std::uint8_t>(random() % 16);
  }
  const auto single = testing::counts_of(symbols, 16, false);
  const auto joint = testing::counts_of(symbols, 16, true);
  EXPECT_TRUE(choose_table({single, joint}, {}).table.pairs);
  EXPECT_FALSE(choose_table({single, joint}, {.pairs = false}).table.pairs);
  EXPECT_FALSE(choose_table({single, {}}, {}).table.pairs);
}

TEST(ChooseTable, AnsPaysItsStatesOnceAPart) {
  const std::vector<std::uint32_t> counts{65000, 100, 100};
  const Allowed only_ans{.huffman = false, .ans = true};
  const Choice one = choose_table({counts, {}}, only_ans, 1);
  const Choice four = choose_table({counts, {}}, only_ans, 4);
  EXPECT_EQ(four.bits - one.bits, 3u * 32 * 32);
  EXPECT_EQ(choose_table({counts, {}}, {.ans = true}, 1).table.coder, CoderId::ans);
  EXPECT_EQ(choose_table({counts, {}}, {.ans = true}, 200).table.coder, CoderId::huffman);
}

TEST(ChooseTable, NothingAllowedIsNoChoice) {
  const std::vector<std::uint32_t> counts{1, 2};
  EXPECT_EQ(choose_table({counts, {}}, {.huffman = false}).bits, UINT64_MAX);
}

}  // namespace
}  // namespace gradwire::entropy
