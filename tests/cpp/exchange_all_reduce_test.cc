// Both all-reduces against a plain reference, bit by bit.

#include "exchange_testing.h"

namespace gradwire::testing {
namespace {

constexpr SumOrder kOrders[] = {SumOrder::rank, SumOrder::gloo};

/// Levels 1 to 3, and 4 for coder=stored.
ExchangeOptions options_of(int level, SumOrder order, bool mean) {
  ExchangeOptions options;
  options.order = order;
  options.mean = mean;
  options.compress.level = std::min(level, 3);
  if (level == 4) options.compress.coder = Coder::stored;
  return options;
}

struct Shape {
  std::uint64_t n;
  std::uint32_t piece;
};

/// Three steps on the same bucket: two_shot, gather_merge, two_shot.
void expect_reduced(DType dtype, Shape shape, unsigned world, ExchangeOptions options,
                    std::uint64_t seed) {
  SCOPED_TRACE(formatted("{} n {} world {} order {} mean {} level {} coder {} piece {} seed {}",
                         dtype_name(dtype), shape.n, world, static_cast<int>(options.order),
                         options.mean, options.compress.level,
                         static_cast<int>(options.compress.coder), shape.piece, seed));
  std::mt19937_64 random(seed);
  options.piece_elements = shape.piece;
  Ranks ranks(dtype, draw_tensors(shape.n, random), world, options);
  for (std::uint32_t step = 0; step < 3; ++step) {
    if (step != 1) ranks.fill(seed + step / 2);
    if (step == 1) ranks.fill(seed);  // the same values as step 0 had
    ranks.start(step == 1, step);
    ranks.run(random());
    ranks.expect_right();
  }
}

class AllReduce : public ::testing::TestWithParam<unsigned> {};

TEST_P(AllReduce, GivesTheReferencesBitsForSmallBuckets) {
  std::uint64_t seed = 0;
  for (const DType dtype : kFloats) {
    for (const SumOrder order : kOrders) {
      for (const bool mean : {true, false}) {
        for (const Shape shape :
             {Shape{0, 64}, Shape{1, 64}, Shape{7, 3}, Shape{1000, 100}, Shape{1000, 65536}}) {
          // Levels take turns, and over the ranks all of them meet all the rest.
          const int level = static_cast<int>(1 + (++seed + GetParam()) % 4);
          expect_reduced(dtype, shape, GetParam(), options_of(level, order, mean), seed);
        }
      }
    }
  }
}

TEST_P(AllReduce, GivesTheReferencesBitsForLargeBuckets) {
  std::uint64_t seed = 101 * GetParam();  // odd for every second number of ranks
  for (const DType dtype : kFloats) {
    ++seed;
    const bool mean = seed / 2 % 2 == 0;
    const int level = static_cast<int>(1 + seed / 2 % 4);
    const ExchangeOptions options = options_of(level, kOrders[seed % 2], mean);
    expect_reduced(dtype, {20011, 700}, GetParam(), options, seed);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, AllReduce, ::testing::Range(1u, 9u));

TEST(Exchange, GivesTheReferencesBitsForPiecesOfSeveralChunks) {
  for (const SumOrder order : kOrders)
    expect_reduced(DType::bf16, {300001, 70000}, 3, options_of(2, order, true), 900);
}

TEST(Exchange, HasStepsThatDoNotDependOnData) {
  for (const bool gather : {false, true}) {
    std::mt19937_64 random(5);
    Ranks ranks(DType::f32, draw_tensors(20000, random), 3, {.piece_elements = 1000});
    std::vector<std::uint64_t> steps;
    for (std::uint32_t step = 0; step < 4; ++step) {
      ranks.fill(step);
      if (step == 2)
        for (Bytes& values : ranks.data) std::ranges::fill(values, std::uint8_t{0});
      ranks.expected = reference(DType::f32, ranks.data, SumOrder::rank, true);
      ranks.start(gather, step);
      steps.push_back(ranks.run(step));
      ranks.expect_right();
    }
    EXPECT_EQ(steps, std::vector<std::uint64_t>(4, steps[0]));
    EXPECT_GT(steps[0], 6u);
  }
}

TEST(Exchange, LearnsTheRoomOfItsFirstMessage) {
  Ranks ranks(DType::f32, {{{100, 300}}}, 2, {.piece_elements = 6000});
  ranks.fill(1);
  const std::vector<Bytes> original = ranks.data;
  std::vector<std::size_t> first;
  for (std::uint32_t step = 0; step < 2; ++step) {
    ranks.data = original;
    ranks.start(false, step);
    ranks.run(step, [&](std::uint64_t id, unsigned, unsigned, Bytes& bytes) {
      if (id == 0) first.push_back(bytes.size());
    });
    ranks.expect_right();
  }
  ASSERT_EQ(first.size(), 4u);
  EXPECT_EQ(first[0], 4096u);
  EXPECT_GT(first[2], 4096u) << "the whole first piece should have room in the second step";
  EXPECT_LT(ranks.exchanges[0]->stats().to_owners.padding, 4000u);
}

TEST(Exchange, CountsItsBytes) {
  Ranks ranks(DType::f32, {{{64, 64}}, {{64}}}, 2, {.piece_elements = 1000});
  ranks.fill(3);
  ranks.start(false, 0);
  std::uint64_t sent = 0;
  ranks.run(7, [&](std::uint64_t, unsigned from, unsigned, Bytes& bytes) {
    if (from == 0) sent += bytes.size();
  });
  const ExchangeStats& stats = ranks.exchanges[0]->stats();
  EXPECT_EQ(stats.to_owners.sent() + stats.from_owners.sent(), sent);
  EXPECT_EQ(stats.to_owners.original + stats.from_owners.original, 4 * 4160u)
      << "half goes to the owner, the other half comes back";
  EXPECT_GT(stats.to_owners.original, stats.to_owners.payload);
  EXPECT_GT(stats.from_owners.original, stats.from_owners.payload);
}

}  // namespace
}  // namespace gradwire::testing
