// Chunks' changes: bits by hand, round trips of all widths, hostile bits.
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "base/counter_random.h"
#include "base/match.h"
#include "stages/delta/chunk.h"

namespace gradwire::delta {
namespace {

template <typename Word>
using Words = std::vector<Word>;

template <typename Word>
constexpr DType kDType = sizeof(Word) == 1   ? DType::f8_e4m3
                         : sizeof(Word) == 2 ? DType::bf16
                         : sizeof(Word) == 4 ? DType::f32
                                             : DType::f64;

/// Rules with the cheapest laws for a chunk.
template <typename Word>
Rules rules_for(const Words<Word>& reference, const Words<Word>& result, DType dtype) {
  Rules rules;
  rules.is_signed_magnitude = is_signed_magnitude(dtype);
  const ClassRule one = class_rule(dtype);
  unsigned least = one.mask, most = 0;
  for (const Word word : reference) {
    const auto key = static_cast<unsigned>(word >> one.shift & one.mask);
    least = std::min(least, key);
    most = std::max(most, key);
  }
  rules.classes = finest_classes(one, least, most);
  ChunkEncoder<Word> encoder;
  encoder.compare(reference, result, rules);
  std::vector<LawCounts> counts(rules.classes.classes);
  encoder.count(counts);
  LawFit fit = fit_laws(counts, false);
  rules.classes.step = fit.step;
  rules.classes.classes = static_cast<unsigned>(fit.laws.size());
  rules.laws = std::move(fit.laws);
  return rules;
}

template <typename Word>
Bytes encoded(const Words<Word>& reference, const Words<Word>& result, const Rules& rules) {
  ChunkEncoder<Word> encoder;
  encoder.compare(reference, result, rules);
  Bytes bytes;
  encoder.encode(rules, bytes);
  return bytes;
}

template <typename Word>
void expect_round_trip(const Words<Word>& reference, const Words<Word>& result, DType dtype) {
  const Rules rules = rules_for(reference, result, dtype);
  const Bytes bytes = encoded(reference, result, rules);
  Words<Word> elements = reference;
  ChunkDecoder<Word> decoder;
  ASSERT_TRUE(decoder.apply(rules, bytes, elements)) << reference.size();
  EXPECT_EQ(elements, result) << reference.size();
}

TEST(DeltaOrder, NeighboursAreOneApart) {
  const auto order = [](std::uint16_t bits) { return ordered(bits, true); };
  EXPECT_EQ(order(0x0000), 0);
  EXPECT_EQ(order(0x8000), 0xffff);  // -0.0 is just below
  EXPECT_EQ(order(0x8001), 0xfffe);
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto word = static_cast<std::uint16_t>(bits);
    EXPECT_EQ(order(order(word)), word);
    EXPECT_EQ(ordered(word, false), word);
  }
  const Step<std::uint16_t> lowest = step_between<std::uint16_t>(0, 0x8000);
  EXPECT_EQ(lowest.size, 0x8000);
  EXPECT_TRUE(lowest.negative);
  EXPECT_TRUE(is_step(lowest));
  EXPECT_FALSE(is_step(Step<std::uint16_t>{0x8000, false}));
  EXPECT_FALSE(is_step(Step<std::uint16_t>{0, true}));
}

TEST(DeltaClasses, KeysBelowAndAboveTheClassesJoinTheFirstAndTheLast) {
  ClassRule rule = finest_classes(class_rule(DType::bf16), 100, 120);
  EXPECT_EQ(rule.low, 105u);
  EXPECT_EQ(rule.classes, kMaxClasses);
  EXPECT_EQ(finest_classes(class_rule(DType::bf16), 118, 120).classes, 3u);
  EXPECT_EQ(finest_classes(class_rule(DType::i8), 0, 0).classes, 1u);
  rule.low = 100;
  rule.step = 1;
  rule.classes = 3;
  ClassMap<std::uint16_t> map;
  std::vector<std::uint16_t> words;
  for (const unsigned key : {0, 99, 100, 101, 102, 103, 104, 105, 106, 255})
    words.push_back(static_cast<std::uint16_t>(0x8000 | key << 7));
  map.build(words, rule);
  std::vector<unsigned> found;
  for (std::size_t i = 0; i < words.size(); ++i) found.push_back(map.class_of(i));
  EXPECT_EQ(found, (std::vector<unsigned>{0, 0, 0, 0, 1, 1, 2, 2, 2, 2}));
  EXPECT_EQ(map.total(0), 4u);
  EXPECT_EQ(map.total(1), 2u);
  EXPECT_EQ(map.total(2), 4u);
  EXPECT_EQ(map.mask(0, 1), 0b110000u);
}

TEST(Match, MasksSayWhichBytesHaveTheValue) {
  std::uint8_t bytes[kMatchBytes];
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    std::uint64_t expected = 0;
    for (std::size_t i = 0; i < kMatchBytes; ++i) {
      bytes[i] = static_cast<std::uint8_t>(random_below(seed, i, 3) * 127);
      expected |= std::uint64_t{bytes[i] == 127} << i;
    }
    EXPECT_EQ(match_mask(bytes, 127), expected);
  }
}

TEST(DeltaChunk, SmallestExampleBitByBit) {
  // Two classes, of key 127 and 128. Of the first, three elements, the second goes 2 up: distance
  // 1 with b = 0 (10), then the end (1); more than one? yes, of one flag (0); sign 0; no rest.
  // Of the second, one element goes 3 down: distance 0 (0), sign 1, rest 2 with r = 1 (10, 0).
  Rules rules;
  rules.is_signed_magnitude = true;
  rules.classes = finest_classes(class_rule(DType::bf16), 127, 128);
  rules.laws.resize(2);
  rules.laws[0] = {true, 1, {RunCode{0, true}, RunCode{0, true}}, kNoRest};
  rules.laws[1] = {true, 0, {RunCode{0, true}}, 1};
  const Words<std::uint16_t> reference{0x3f80, 0x3fff, 0x4000, 0xbf80};
  const Words<std::uint16_t> result{0x3f80, 0x4001, 0x3ffd, 0xbf80};
  EXPECT_EQ(encoded(reference, result, rules), (Bytes{0b110'00101, 0b00}));
  Words<std::uint16_t> elements = reference;
  ChunkDecoder<std::uint16_t> decoder;
  ASSERT_TRUE(decoder.apply(rules, encoded(reference, result, rules), elements));
  EXPECT_EQ(elements, result);
}

template <typename Word>
class DeltaChunk : public ::testing::Test {};
using AllWords = ::testing::Types<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(DeltaChunk, AllWords);

/// Elements of all sizes; of each octave half as many change as of the one below.
template <typename Word>
void weights(std::size_t n, std::uint64_t seed, Words<Word>& reference, Words<Word>& result) {
  const ClassRule rule = class_rule(kDType<Word>);
  reference.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    reference[i] = static_cast<Word>(random_bits(seed, i));
    const unsigned octave =
        static_cast<unsigned>(std::countr_zero(random_bits(seed + 1, i) | 1u << 8));
    const unsigned key = rule.mask / 2 - std::min(octave, rule.mask / 2);
    const auto field = static_cast<Word>(static_cast<Word>(rule.mask) << rule.shift);
    reference[i] = static_cast<Word>((reference[i] & ~field) |
                                     static_cast<Word>(static_cast<Word>(key) << rule.shift));
  }
  result = reference;
  for (std::size_t i = 0; i < n; ++i) {
    const auto key = static_cast<unsigned>(reference[i] >> rule.shift & rule.mask);
    const unsigned above = rule.mask / 2 - key;
    if (random_below(seed + 2, i, 64) >= (1u << std::min(above, 6u))) continue;
    const unsigned more = static_cast<unsigned>(std::countr_zero(random_bits(seed + 3, i)));
    const auto size = static_cast<Word>(1 + std::min(more, above));
    const bool up = random_below(seed + 4, i, 2) == 0;
    result[i] = static_cast<Word>(up ? result[i] + size : result[i] - size);
  }
}

TYPED_TEST(DeltaChunk, WeightsComeBackAtEveryLength) {
  using Word = TypeParam;
  Words<Word> reference, result;
  for (const std::size_t n : {1u, 2u, 7u, 63u, 64u, 65u, 127u, 128u, 129u, 5000u, 65536u}) {
    weights(n, n, reference, result);
    expect_round_trip(reference, result, kDType<Word>);
  }
  for (std::size_t n = 1; n < 200; ++n) {
    weights(n, n, reference, result);
    expect_round_trip(reference, result, kDType<Word>);
  }
}

TYPED_TEST(DeltaChunk, AnyBitsBecomeAnyOthers) {
  using Word = TypeParam;
  for (const DType dtype : {kDType<Word>, DType::u8}) {  // the second: one class, plain integers
    for (const std::size_t n : {1u, 64u, 1000u}) {
      Words<Word> reference(n), result(n);
      for (std::size_t i = 0; i < n; ++i) {
        reference[i] = static_cast<Word>(random_bits(1, i));
        result[i] = static_cast<Word>(random_bits(2, i));
      }
      reference[0] = 0;
      result[0] = kSign<Word>;  // the longest step, or -0.0
      expect_round_trip(reference, result, dtype);
      expect_round_trip(result, reference, dtype);
      expect_round_trip(reference, reference, dtype);
    }
  }
}

TEST(DeltaChunk, SaysWhetherAnythingChanged) {
  Words<std::uint16_t> reference(100, 0x3f80), result = reference;
  Rules rules;
  rules.classes = finest_classes(class_rule(DType::bf16), 127, 127);
  ChunkEncoder<std::uint16_t> encoder;
  EXPECT_FALSE(encoder.compare(reference, result, rules));
  result[99] ^= 1;
  EXPECT_TRUE(encoder.compare(reference, result, rules));
}

TEST(DeltaChunk, WeightsTakeWhatTheirEntropyIs) {
  Words<std::uint16_t> reference, result;
  weights(65536, 9, reference, result);
  std::map<unsigned, std::map<int, double>> found;  // by key, how often each difference
  for (std::size_t i = 0; i < reference.size(); ++i)
    ++found[reference[i] >> 7 & 255][result[i] - reference[i]];
  double bits = 0;
  for (const auto& [key, steps] : found) {
    double all = 0;
    for (const auto& [step, count] : steps) all += count;
    for (const auto& [step, count] : steps) bits += count * std::log2(all / count);
  }
  const Rules rules = rules_for(reference, result, DType::bf16);
  EXPECT_EQ(rules.classes.step, 0u);
  const Bytes bytes = encoded(reference, result, rules);
  EXPECT_LE(8 * static_cast<double>(bytes.size()), 1.04 * bits);
}

TEST(DeltaChunk, HostileBitsAreRefusedOrGiveSomeResultAndLeaveTheRestAlone) {
  Words<std::uint16_t> reference, result;
  weights(3000, 4, reference, result);
  const Rules rules = rules_for(reference, result, DType::bf16);
  const Bytes good = encoded(reference, result, rules);
  ChunkDecoder<std::uint16_t> decoder;
  std::size_t refused = 0;
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    Bytes bad = good;
    bad[bit / 8] = static_cast<std::uint8_t>(bad[bit / 8] ^ 1u << bit % 8);
    Words<std::uint16_t> elements = reference;
    if (decoder.apply(rules, bad, elements)) continue;
    ++refused;
    ASSERT_EQ(elements, reference) << bit;
  }
  EXPECT_GT(refused, good.size());
  for (std::size_t size = 0; size < good.size(); ++size) {
    Words<std::uint16_t> elements = reference;
    EXPECT_FALSE(decoder.apply(rules, ByteSpan(good).first(size), elements)) << size;
    ASSERT_EQ(elements, reference);
  }
}

TEST(DeltaChunk, BitsBehindTheLastAreRefused) {
  Rules rules;
  rules.classes = class_rule(DType::u8);
  rules.laws.resize(1);
  rules.laws[0] = {true, 0, {RunCode{0, true}}, kNoRest};
  ChunkDecoder<std::uint8_t> decoder;
  const auto applies = [&](const Bytes& bytes) {
    Words<std::uint8_t> elements{1};
    return decoder.apply(rules, bytes, elements);
  };
  EXPECT_TRUE(applies({0b00}));  // the only element goes up by one
  EXPECT_FALSE(applies({0b100}));
  EXPECT_FALSE(applies({0b00, 0}));
}

TEST(DeltaChunk, RestsBeyondTheElementsWidthAreRefused) {
  Rules rules;
  rules.classes = class_rule(DType::u8);
  rules.laws.resize(1);
  rules.laws[0] = {true, 0, {RunCode{0, true}}, 0};
  ChunkDecoder<std::uint8_t> decoder;
  // The only element changes (0), up (0) or down (1), by one more than 24 ones and a byte say.
  const auto apply = [&](std::uint64_t sign, std::uint64_t rest) {
    Bytes bytes(16);
    BitWriter out(bytes.data());
    out.put(0, 1);
    out.put(sign, 1);
    out.put((1u << 24) - 1, 24);
    out.put(rest, 8);
    bytes.resize(out.finish());
    Words<std::uint8_t> elements{1};
    return decoder.apply(rules, bytes, elements) ? elements[0] : -1;
  };
  EXPECT_EQ(apply(0, 126), 128);
  EXPECT_EQ(apply(0, 127), -1);  // 128 up is 128 down
  EXPECT_EQ(apply(1, 127), 129);
  EXPECT_EQ(apply(1, 128), -1);
  EXPECT_EQ(apply(0, 255), -1);  // 256
}

}  // namespace
}  // namespace gradwire::delta
