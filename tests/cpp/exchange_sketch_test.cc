// A whole step of sums by sketch over the additive exchange: three all-reduces, and on all ranks
// the mean of what each would decode of its own.

#include "exchange_testing.h"
#include "lossy/sketch/grid.h"
#include "sketch_testing.h"

namespace gradwire::testing {
namespace {

using namespace lossy;

/// All ranks' values are combined in place.
template <typename Value>
void all_reduce(Reduction reduction, std::vector<std::vector<Value>>& ranks,
                std::uint32_t most = 0) {
  std::vector<std::unique_ptr<Exchange>> exchanges;
  for (unsigned r = 0; r < ranks.size(); ++r) {
    const AdditiveBucket bucket{.rank = r,
                                .world = static_cast<unsigned>(ranks.size()),
                                .reduction = reduction,
                                .elements = ranks[r].size(),
                                .most = most,
                                .piece_elements = 1000};
    const std::span<std::uint8_t> bytes(reinterpret_cast<std::uint8_t*>(ranks[r].data()),
                                        ranks[r].size() * sizeof(Value));
    exchanges.push_back(additive(bucket, bytes, 1));
  }
  run_all(exchanges, 1);
  for (const auto& exchange : exchanges) {
    ASSERT_TRUE(exchange->done());
    ASSERT_FALSE(exchange->error()) << exchange->error()->what();
  }
}

/// One value in 20 is not 0 on a rank; its size depends on the rank.
std::vector<float> sparse_floats(std::size_t n, unsigned rank) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t bits = random_bits(rank, i);
    if (bits % 20 == 0)
      values[i] =
          std::ldexp(static_cast<float>(bits >> 40) * 0x1p-24F - 0.5F, 2 * static_cast<int>(rank));
  }
  return values;
}

void expect_mean(const SketchOptions& options, unsigned world) {
  constexpr std::size_t kValues = 7001;
  std::vector<std::vector<float>> gradients;
  std::vector<std::vector<std::int64_t>> magnitudes;
  for (unsigned r = 0; r < world; ++r) {
    gradients.push_back(sparse_floats(kValues, r));
    magnitudes.push_back({measure_magnitude(gradients[r])});
  }
  all_reduce(Reduction::i64_max, magnitudes);

  const std::uint32_t most = std::min(value_limit(options, world), kMostOnGrid);
  const IntegerGrid grid = grid_for(magnitudes[0][0], most).value();
  std::vector<Integers> integers(world, Integers(kValues));
  std::vector<Index> own(world);
  std::vector<double> expected(kValues);
  for (unsigned r = 0; r < world; ++r) {
    std::vector<float> decoded(kValues);
    ASSERT_TRUE(to_grid(gradients[r], grid, integers[r]));
    ASSERT_TRUE(from_grid(integers[r], grid, 1, decoded));
    own[r] = index_of(integers[r], options.block_values);
    for (std::size_t i = 0; i < kValues; ++i) expected[i] += double{decoded[i]};
  }
  std::vector<Index> all = own;
  all_reduce(Reduction::u8_or, all);

  std::vector<SketchPlan> plans;
  std::vector<Integers> payloads;
  for (unsigned r = 0; r < world; ++r) {
    plans.push_back(plan_of(all[r], kValues, options));
    payloads.emplace_back(plans[r].payload_values());
    fill_payload(plans[r], integers[r], own[r], most, payloads[r]);
  }
  all_reduce(Reduction::i32_sum, payloads, payload_bound(plans[0], most));

  for (unsigned r = 0; r < world; ++r) {
    std::vector<float> mean(kValues);
    ASSERT_TRUE(from_grid(restored(plans[r], payloads[r]), grid, world, mean));
    for (std::size_t i = 0; i < kValues; ++i)
      ASSERT_EQ(mean[i], static_cast<float>(expected[i] / world)) << "rank " << r << ", " << i;
  }
}

TEST(ExchangeSketch, GivesTheMeanOfWhatRanksDecode) {
  for (const unsigned world : {1u, 2u, 3u, 8u}) {
    for (const double cells : {0.0, 1.0, 1.35}) {
      for (const std::size_t block_values : {1, 4}) {
        SCOPED_TRACE(::testing::Message() << world << " ranks, cells " << cells);
        expect_mean({.block_values = block_values, .cells = cells}, world);
      }
    }
  }
}

}  // namespace
}  // namespace gradwire::testing
