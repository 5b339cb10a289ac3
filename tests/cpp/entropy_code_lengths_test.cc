#include <numeric>
#include <queue>

#include "entropy_testing.h"
#include "stages/entropy/code_lengths.h"
#include "stages/entropy/fixed_log2.h"
#include "stages/entropy/huffman.h"

namespace gradwire::entropy {
namespace {

using Weights = std::vector<std::uint64_t>;

std::uint64_t cost(const Weights& weights, const Values& lengths) {
  std::uint64_t sum = 0;
  for (std::size_t s = 0; s < weights.size(); ++s) sum += weights[s] * lengths[s];
  return sum;
}

/// Of an unlimited code: the sum of all inner nodes of Huffman's tree.
std::uint64_t huffman_cost(const Weights& weights) {
  std::priority_queue<std::uint64_t, Weights, std::greater<>> queue;
  for (const auto weight : weights) {
    if (weight > 0) queue.push(weight);
  }
  std::uint64_t sum = 0;
  while (queue.size() > 1) {
    const std::uint64_t first = queue.top();
    queue.pop();
    const std::uint64_t joined = first + queue.top();
    queue.pop();
    sum += joined;
    queue.push(joined);
  }
  return sum;
}

TEST(CodeLengths, ThreeEqualWeightsGiveTheLastSymbolTheShortCode) {
  // The lists begin 1 1 1 at the bottom and 1 1 1 2 above; the 4 first of the top are the three
  // items and the package of symbols 0 and 1, which adds a bit to these.
  const Values lengths = code_lengths(Weights{1, 1, 1});
  EXPECT_EQ(lengths[0], 2);
  EXPECT_EQ(lengths[1], 2);
  EXPECT_EQ(lengths[2], 1);
}

TEST(CodeLengths, LoneSymbolHasAPartner) {
  for (const std::size_t symbol : {0, 1, 7, 255}) {
    Weights weights(256);
    weights[symbol] = 5;
    const Values lengths = code_lengths(weights);
    EXPECT_EQ(lengths[symbol], 1);
    EXPECT_EQ(lengths[symbol == 0 ? 1 : 0], 1);
    EXPECT_TRUE(is_complete_code(lengths));
  }
  EXPECT_TRUE(is_complete_code(code_lengths(Weights(16)))) << "no symbol at all";
}

TEST(CodeLengths, EveryAlphabetGivesACompleteCodeOfTheUsedSymbols) {
  std::mt19937_64 random(1);
  for (std::size_t alphabet = 2; alphabet <= 256; ++alphabet) {
    Weights weights(alphabet);
    for (auto& weight : weights) weight = random() >> (16 + random() % 48) << (random() % 4 == 0);
    weights[0] = weights[alphabet - 1] = 1;
    const Values lengths = code_lengths(weights);
    EXPECT_TRUE(is_complete_code(lengths));
    for (std::size_t s = 0; s < 256; ++s) {
      ASSERT_EQ(lengths[s] > 0, s < alphabet && weights[s] > 0);
      ASSERT_LE(lengths[s], kMaxCodeLength);
    }
  }
}

TEST(CodeLengths, CostIsHuffmansWhereTheLimitDoesNotBind) {
  std::mt19937_64 random(2);
  for (int trial = 0; trial < 300; ++trial) {
    Weights weights(2 + random() % 60);
    for (auto& weight : weights) weight = 20 + random() % 40;  // all within a factor of 3
    EXPECT_EQ(cost(weights, code_lengths(weights)), huffman_cost(weights));
  }
}

TEST(CodeLengths, LimitIsKeptAtTheLeastCost) {
  // Fibonacci weights want a code of 19 bits. The best code of limited depth is found by trying all
  // non-increasing length vectors of Kraft sum 1, for a small case.
  Weights weights{1, 1, 2, 3, 5, 8, 13, 21};
  const unsigned limit = 4;
  std::uint64_t best = UINT64_MAX;
  std::array<unsigned, 8> lengths{};
  const std::function<void(std::size_t, unsigned, unsigned)> search =
      [&](std::size_t s, unsigned left, unsigned longest) {
        if (s == lengths.size()) {
          std::uint64_t sum = 0;
          for (std::size_t k = 0; k < lengths.size(); ++k) sum += weights[k] * lengths[k];
          if (left == 0) best = std::min(best, sum);
          return;
        }
        for (unsigned length = 1; length <= longest; ++length) {
          if (1u << (limit - length) > left) continue;
          lengths[s] = length;
          search(s + 1, left - (1u << (limit - length)), length);
        }
      };
  search(0, 1u << limit, limit);
  EXPECT_EQ(cost(weights, code_lengths(weights, limit)), best);

  for (std::size_t s = weights.size(); s < 30; ++s)
    weights.push_back(weights[s - 1] + weights[s - 2]);
  const Values limited = code_lengths(weights);
  EXPECT_TRUE(is_complete_code(limited));
  EXPECT_EQ(*std::max_element(limited.begin(), limited.end()), kMaxCodeLength);
}

TEST(NormalisedFrequencies, SumIs4096AndUsedSymbolsKeepOne) {
  std::mt19937_64 random(3);
  for (std::size_t alphabet = 1; alphabet <= 256; ++alphabet) {
    Weights weights(alphabet);
    for (auto& weight : weights) weight = random() >> (14 + random() % 50);
    weights[random() % alphabet] = 1;
    const Values frequencies = normalised_frequencies(weights);
    unsigned sum = 0;
    for (std::size_t s = 0; s < 256; ++s) {
      sum += frequencies[s];
      ASSERT_EQ(frequencies[s] > 0, s < alphabet && weights[s] > 0);
    }
    ASSERT_EQ(sum, 4096u);
  }
}

TEST(NormalisedFrequencies, RoundingGoesToTheLargestAndOfEqualsToTheLowest) {
  EXPECT_EQ(normalised_frequencies(Weights{1, 1, 1})[0], 1366);  // 3 x 1365 = 4095, one is short
  EXPECT_EQ(normalised_frequencies(Weights{1, 1, 1})[1], 1365);
  // 1 is raised from 0 twice: 4094 + 1 + 1 + 1 would be one too many without the subtraction.
  const Values raised = normalised_frequencies(Weights{1000000, 1, 1});
  EXPECT_EQ(raised[0], 4094);
  EXPECT_EQ(raised[1], 1);
  EXPECT_EQ(normalised_frequencies(Weights{0, 9})[1], 4096);
}

TEST(FixedLog2, AgreesWithTheFloatingOne) {
  EXPECT_EQ(fixed_log2(1), 0u);
  EXPECT_EQ(fixed_log2(4096), 12u << kLog2Bits);
  EXPECT_EQ(fixed_log2(std::uint64_t{1} << 52), 52u << kLog2Bits);
  for (std::uint64_t value = 1; value < 100000; value += 1 + value / 5) {
    // 12 bits of the argument are kept: an error of at most 2^-11 / ln 2.
    EXPECT_NEAR(fixed_log2(value) / 65536.0, std::log2(value), 0.00071) << value;
  }
}

double bits_under(const Weights& weights, const Values& frequencies) {
  double bits = 0;
  for (std::size_t s = 0; s < weights.size(); ++s) {
    if (weights[s] > 0) bits += static_cast<double>(weights[s]) * (12 - std::log2(frequencies[s]));
  }
  return bits;
}

TEST(BestFrequencies, CostNoMoreThanRoundedOnes) {
  std::mt19937_64 random(8);
  for (int trial = 0; trial < 200; ++trial) {
    Weights weights(1 + random() % 256);
    for (auto& weight : weights)
      weight = random() % 4 == 0 ? 0 : (random() & 0xffff) >> random() % 14;
    weights[0] += 1;
    const Values best = best_frequencies(weights);
    ASSERT_EQ(std::accumulate(best.begin(), best.end(), 0u), 4096u);
    for (std::size_t s = 0; s < weights.size(); ++s) ASSERT_EQ(best[s] > 0, weights[s] > 0);
    // Logarithms are rounded down to 2^-16 bit.
    const auto n =
        static_cast<double>(std::accumulate(weights.begin(), weights.end(), std::uint64_t{0}));
    const double rounded = bits_under(weights, normalised_frequencies(weights));
    ASSERT_LE(bits_under(weights, best), rounded + n / 65536);
  }
}

TEST(BestFrequencies, NoExchangeOfASlotWouldHelp) {
  const Weights weights{99, 216, 428, 806, 1792, 3437, 6704, 12878, 21858, 29863, 0, 138};
  const Values best = best_frequencies(weights);
  const double bits = bits_under(weights, best);
  for (std::size_t taker = 0; taker < weights.size(); ++taker) {
    for (std::size_t giver = 0; giver < weights.size(); ++giver) {
      if (weights[taker] == 0 || best[giver] < 2 || taker == giver) continue;
      Values other = best;
      ++other[taker];
      --other[giver];
      // The gains are known to 2^-16 of a bit for each occurrence.
      EXPECT_GE(bits_under(weights, other), bits - static_cast<double>(weights[taker]) / 32768);
    }
  }
}

}  // namespace
}  // namespace gradwire::entropy
