// Entries in words of an all-reduce, indices in bits: exact sums, the bounds of each layout,
// damage.

#include <cstring>
#include <limits>
#include <memory>

#include "exchange/loopback.h"
#include "gradwire/exchange.h"
#include "thc_testing.h"

namespace gradwire::lossy {
namespace {

constexpr std::int64_t kMostWord = std::numeric_limits<std::int32_t>::max();

Words packed(const Octets& entries, const Lanes& lanes) {
  Words words(word_count(lanes, entries.size()));
  pack_entries(entries, lanes, words);
  return words;
}

/// The sum that an all-reduce makes, which must not overflow in any order.
Words summed(const std::vector<Words>& ranks) {
  Words sum(ranks.front().size());
  for (std::size_t w = 0; w < sum.size(); ++w) {
    std::int64_t above = 0, below = 0;
    for (const Words& words : ranks) (words[w] > 0 ? above : below) += words[w];
    EXPECT_LE(above, kMostWord);
    EXPECT_GE(below, -kMostWord);
    sum[w] = static_cast<std::int32_t>(above + below);
  }
  return sum;
}

TEST(Lanes, WorkedByHand) {
  const Lanes lanes = lanes_for(30, 8);
  EXPECT_EQ(lanes.bias, 15 * 0x01010101);
  EXPECT_EQ(lanes.most, 15u * 0x01010101u);
  EXPECT_EQ(packed({15, 16, 15, 15, 30}, lanes), (Words{0x100, 30 - 15 * 0x01010101}))
      << "the middle is 0; behind the last entry there are zeros";
}

TEST(Lanes, AreAsManyAsTheSumLeavesRoomFor) {
  const auto per_word = [](std::uint32_t top, std::uint32_t ranks) {
    return lanes_for(top, ranks).per_word;
  };
  EXPECT_EQ(per_word(31, 8), 4u);
  EXPECT_EQ(per_word(30, 8), 4u);
  EXPECT_EQ(per_word(127, 2), 4u) << "254";
  EXPECT_EQ(per_word(85, 3), 3u) << "255";
  EXPECT_EQ(per_word(255, 1), 3u) << "255";
  EXPECT_EQ(per_word(93, 11), 3u) << "1023";
  EXPECT_EQ(per_word(1, 1024), 2u);
  EXPECT_EQ(per_word(1, 65534), 2u);
  EXPECT_EQ(per_word(1, 65535), 1u);
  EXPECT_EQ(per_word(255, 257), 1u) << "65535";
  EXPECT_EQ(per_word(255, 4210752), 1u);
}

TEST(Lanes, FitTheAllReduceAndHoldTheSum) {
  for (std::uint32_t top = 1; top <= 255; ++top)
    for (std::uint32_t ranks = 1; ranks <= 70000 / top; ranks += 1 + ranks / 40) {
      const Lanes lanes = lanes_for(top, ranks);
      ASSERT_LE(std::int64_t{lanes.most} * ranks, kMostWord);
      ASSERT_LT(std::uint64_t{top} * ranks, std::uint64_t{1} << lanes.bits);
      ASSERT_LE(lanes.bits * (lanes.per_word - 1), 32u);
    }
}

/// That lanes.most is reached and not passed, and that sums of all, none or some entries at the
/// top come back.
void expect_exact_sums(std::uint32_t top, std::uint32_t ranks, std::size_t n) {
  const Lanes lanes = lanes_for(top, ranks);
  for (const int kind : {0, 1, 2}) {  // all zero, all at the top, random
    std::vector<Words> words;
    Sums expected(n);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      Octets entries = some_entries(n, top, rank);
      if (kind < 2) entries.assign(n, static_cast<std::uint8_t>(kind == 1 ? top : 0));
      for (std::size_t i = 0; i < n; ++i) expected[i] += entries[i];
      words.push_back(packed(entries, lanes));
      std::uint32_t most = 0;
      for (const std::int32_t word : words.back())
        most = std::max(most, static_cast<std::uint32_t>(std::abs(word)));
      EXPECT_LE(most, lanes.most);
      EXPECT_TRUE(kind != 1 || n < lanes.per_word || most == lanes.most);
    }
    const Words sum = summed(words);
    Sums sums(n);
    unpack_sums(sum, lanes, sums);
    EXPECT_EQ(sums, expected);
    Words of_a_server(sum.size());
    pack_sums(expected, lanes, of_a_server);
    EXPECT_EQ(of_a_server, sum);
  }
}

TEST(Lanes, SumsAreExactUpToTheBounds) {
  for (std::size_t n = 0; n <= 13; ++n) expect_exact_sums(31, 8, n);
  expect_exact_sums(31, 8, 5003);
  for (const auto& [top, ranks] : {std::pair{30u, 8u},
                                   {127u, 2u},
                                   {85u, 3u},
                                   {51u, 5u},
                                   {255u, 1u},
                                   {93u, 11u},
                                   {33u, 31u},
                                   {64u, 16u},
                                   {255u, 256u},
                                   {255u, 257u}})
    expect_exact_sums(top, ranks, 101);
}

TEST(Lanes, ReachTheBoundsOfTheAllReduceAndComeBack) {
  for (const auto& [top, ranks] : {std::pair{31u, 8u}, {127u, 2u}, {85u, 3u}, {93u, 11u}}) {
    const Lanes lanes = lanes_for(top, ranks);
    std::vector<std::vector<std::uint8_t>> data;
    std::vector<std::unique_ptr<Exchange>> exchanges;
    std::vector<Exchange*> all;
    constexpr std::size_t kEntries = 1001;
    const std::size_t count = word_count(lanes, kEntries);
    for (unsigned rank = 0; rank < ranks; ++rank) {
      const Words words = packed(Octets(kEntries, static_cast<std::uint8_t>(top)), lanes);
      data.emplace_back(count * sizeof(std::int32_t));
      std::memcpy(data.back().data(), words.data(), data.back().size());
    }
    for (unsigned rank = 0; rank < ranks; ++rank) {
      exchanges.push_back(additive({.rank = rank,
                                    .world = ranks,
                                    .reduction = Reduction::i32_sum,
                                    .elements = count,
                                    .most = lanes.most},
                                   data[rank], 0));
      all.push_back(exchanges.back().get());
    }
    exchange::Loopback(all, 1).run();
    Words total(count);
    std::memcpy(total.data(), data[1].data(), data[1].size());
    Sums sums(kEntries);
    unpack_sums(total, lanes, sums);
    EXPECT_EQ(sums, Sums(kEntries, top * ranks));
    EXPECT_FALSE(exchanges[0]->error().has_value());
  }
}

TEST(Lanes, RefuseWhatDoesNotFit) {
  EXPECT_NE(refusal(ErrorKind::limit, [] { static_cast<void>(lanes_for(255, 4210753)); })
                .find("ranks: 4210753 given, 1 to 4210752"),
            std::string::npos);
  refusal(ErrorKind::limit, [] { static_cast<void>(lanes_for(30, 0)); });
  const Lanes lanes = lanes_for(30, 8);
  Words words(2);
  Sums sums(5);
  const auto refused = [&](const auto& call) { return refusal(ErrorKind::invalid_argument, call); };
  EXPECT_NE(refused([&] { pack_entries(Octets{31}, lanes, words); }).find("words: 2 given, 1"),
            std::string::npos);
  EXPECT_NE(refused([&] {
              pack_entries(Octets{0, 0, 0, 0, 31}, lanes, words);
            }).find("31 given, at most 30"),
            std::string::npos);
  refused([&] { pack_sums(Sums{0, 0, 0, 0, 241}, lanes, words); });
  refused([&] { unpack_sums(Words(1), lanes, sums); });
}

TEST(Lanes, DamagedSumsAreCorrupt) {
  for (const auto& [top, ranks] : {std::pair{30u, 8u}, {30u, 20u}, {30u, 100u}, {30u, 5000u}}) {
    const Lanes lanes = lanes_for(top, ranks);
    const std::uint32_t most = top * ranks;
    const std::size_t n = 2 * lanes.per_word - (lanes.per_word > 1 ? 1 : 0);
    Words words(2);
    Sums sums(n);
    pack_sums(Sums(n, most), lanes, words);
    unpack_sums(words, lanes, sums);  // sound
    ++words[0];                       // the first sum is one too large
    refusal(ErrorKind::corrupt, [&] { unpack_sums(words, lanes, sums); });
    --words[0];
    words[1] += static_cast<std::int32_t>(1u << lanes.bits * (lanes.per_word - 1));  // behind n
    const std::string message =
        refusal(ErrorKind::corrupt, [&] { unpack_sums(words, lanes, sums); });
    EXPECT_NE(message.find(lanes.per_word > 1 ? "behind the last" : "at most"), std::string::npos)
        << message;
  }
}

TEST(Indices, WorkedByHand) {
  Octets bytes(2);
  pack_indices(Octets{1, 2, 15}, 4, bytes);
  EXPECT_EQ(bytes, (Octets{0x21, 0x0f}));
  bytes.resize(3);
  pack_indices(Octets{1, 2, 3, 4, 5, 6, 7, 0}, 3, bytes);
  EXPECT_EQ(bytes, (Octets{0b11'010'001, 0b0'101'100'0, 0b000'111'11}));
}

TEST(Indices, ComeBackInAllWidths) {
  for (unsigned bits = 1; bits <= 8; ++bits)
    for (const std::size_t n : {0, 1, 2, 7, 8, 9, 63, 64, 1001}) {
      const Octets indices = some_entries(n, (1u << bits) - 1, bits);
      ASSERT_EQ(index_bytes(n, bits), (n * bits + 7) / 8);
      Octets bytes(index_bytes(n, bits), 0xff);
      pack_indices(indices, bits, bytes);
      Octets back(n, 0xff);
      unpack_indices(bytes, bits, back);
      EXPECT_EQ(back, indices) << bits << " bits, " << n;
      for (std::size_t i = 0; i < n; ++i) {  // the layout: bit by bit
        unsigned index = 0;
        for (unsigned bit = 0; bit < bits; ++bit) {
          const std::size_t at = i * bits + bit;
          index |= (bytes[at / 8] >> at % 8 & 1u) << bit;
        }
        ASSERT_EQ(index, indices[i]);
      }
    }
}

TEST(Indices, RefuseWhatDoesNotFit) {
  Octets bytes(1), indices(3);
  const auto invalid = ErrorKind::invalid_argument;
  EXPECT_NE(refusal(invalid, [&] { pack_indices(indices, 4, bytes); })
                .find("bytes: 1 given, 2 needed for 3 indices of 4 bits"),
            std::string::npos);
  refusal(invalid, [&] { pack_indices(indices, 0, bytes); });
  refusal(invalid, [&] { pack_indices(indices, 9, bytes); });
  refusal(invalid, [&] { unpack_indices(bytes, 4, indices); });
  EXPECT_NE(refusal(invalid, [&] { pack_indices(Octets{4}, 2, bytes); }).find("4 given, below 4"),
            std::string::npos);
  bytes = {0x10};  // the upper half is behind the last
  indices.resize(1);
  EXPECT_NE(refusal(ErrorKind::corrupt, [&] { unpack_indices(bytes, 4, indices); })
                .find("behind the last of 1 indices"),
            std::string::npos);
}

}  // namespace
}  // namespace gradwire::lossy
