// Rounding to half types and additions, against definitions.

#include "exchange/addition.h"
#include "exchange/rounding.h"
#include "exchange_testing.h"

namespace gradwire::testing {
namespace {

using exchange::AdditionRule;

/// The three floats at and around a number that is exact in f32.
std::array<float, 3> around(double number) {
  const auto value = static_cast<float>(number);
  return {std::nextafterf(value, -INFINITY), value, std::nextafterf(value, INFINITY)};
}

template <typename To, typename From>
void expect_rounds(const NarrowFloat& format, const To& to, const From& from) {
  for (unsigned pattern = 0; pattern < 65536; ++pattern) {
    const auto bits = static_cast<std::uint16_t>(pattern);
    const double value = format.value(bits);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(from(bits))) << pattern;
      ASSERT_TRUE(std::isnan(format.value(to(from(bits))))) << pattern;
      continue;
    }
    ASSERT_EQ(std::bit_cast<std::uint32_t>(from(bits)),
              std::bit_cast<std::uint32_t>(static_cast<float>(value)));
    ASSERT_EQ(to(from(bits)), bits);
    if (std::isinf(value)) continue;
    // The middle of the way to the next pattern, which past the largest is the next power of two.
    const auto next = static_cast<std::uint16_t>(bits + 1);
    const double above = std::isinf(format.value(next))
                             ? std::copysign(std::ldexp(1, format.largest + 1), value)
                             : format.value(next);
    for (const double number : {value, (value + above) / 2})
      for (const float near : around(number))
        ASSERT_EQ(to(near), format.nearest(near)) << pattern << " near " << near;
  }
}

TEST(Rounding, OfHalfTakesTheNearestEven) { expect_rounds(kHalf, to_f16, from_f16); }

TEST(Rounding, OfBrainFloatTakesTheNearestEven) { expect_rounds(kBrain, to_bf16, from_bf16); }

TEST(Rounding, IsRightForRandomFloats) {
  std::mt19937_64 random(1);
  for (int k = 0; k < 200000; ++k) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isnan(value)) continue;
    ASSERT_EQ(to_f16(value), kHalf.nearest(value)) << value;
    ASSERT_EQ(to_bf16(value), kBrain.nearest(value)) << value;
  }
}

/// All patterns, beside partners that make ties, cancel, and overflow.
std::vector<Bytes> all_patterns(unsigned world) {
  std::mt19937_64 random(world);
  std::vector<Bytes> inputs(world, Bytes(2 * 65536));
  for (unsigned r = 0; r < world; ++r) {
    for (unsigned i = 0; i < 65536; ++i) {
      unsigned bits = i;
      if (r > 0 && random() % 4 != 0) bits ^= 0x8000u | (1u << random() % 11);
      if (r > 0 && random() % 4 == 0) bits = static_cast<unsigned>(random());
      const auto word = static_cast<std::uint16_t>(bits);
      std::memcpy(inputs[r].data() + 2 * i, &word, 2);
    }
  }
  return inputs;
}

TEST(Addition, OfAllHalfPatternsIsTheReferences) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const unsigned world : {2u, 3u, 5u, 8u}) {
      for (const SumOrder order : {SumOrder::rank, SumOrder::gloo}) {
        for (const bool mean : {true, false}) {
          const std::vector<Bytes> inputs = all_patterns(world);
          std::vector<const std::uint8_t*> pointers;
          for (const Bytes& input : inputs) pointers.push_back(input.data());
          const AdditionRule rule{dtype, order, world, mean, 65536};
          Bytes sums(2 * 65536);
          exchange::add_values(rule, 0, pointers, 65536, sums.data());
          exchange::scale(rule, sums.data(), 65536);
          EXPECT_TRUE(sums == reference(dtype, inputs, order, mean))
              << dtype_name(dtype) << " world " << world << " order " << static_cast<int>(order)
              << " mean " << mean;
        }
      }
    }
  }
}

TEST(Addition, WritesOverOneOfItsInputs) {
  const std::vector<Bytes> inputs = all_patterns(3);
  for (unsigned out = 0; out < 3; ++out) {
    std::vector<Bytes> values = inputs;
    std::vector<const std::uint8_t*> pointers;
    for (const Bytes& input : values) pointers.push_back(input.data());
    const AdditionRule rule{DType::bf16, SumOrder::gloo, 3, true, 65536};
    exchange::add_values(rule, 0, pointers, 65536, values[out].data());
    EXPECT_TRUE(values[out] == reference(DType::bf16, inputs, rule.order, rule.mean));
  }
}

TEST(Addition, DoesNotDependOnWhereARunBegins) {
  std::vector<Bytes> inputs;
  for (std::uint64_t r = 0; r < 3; ++r)
    inputs.push_back(draw_values(DType::f32, {{{5000}}, {{70, 30}}}, r));
  const std::size_t n = inputs[0].size() / 4;
  for (const SumOrder order : {SumOrder::rank, SumOrder::gloo}) {
    const AdditionRule rule{DType::f32, order, 3, false, n};
    Bytes sums(4 * n);
    std::mt19937_64 random(9);
    for (std::size_t at = 0; at < n;) {
      const std::size_t run = std::min<std::size_t>(n - at, 1 + random() % 900);
      std::vector<const std::uint8_t*> pointers;
      for (const Bytes& input : inputs) pointers.push_back(input.data() + 4 * at);
      exchange::add_values(rule, at, pointers, run, sums.data() + 4 * at);
      at += run;
    }
    EXPECT_TRUE(sums == reference(DType::f32, inputs, order, false));
  }
}

TEST(GlooChunks, FollowTheResearchNotes) {
  for (const DType dtype : kFloats)
    for (unsigned world = 1; world <= 8; ++world)
      for (const std::uint64_t n : {1ull, 2ull, 7ull, 1000ull, 100003ull, 786433ull, 5000011ull})
        EXPECT_EQ(exchange::gloo_chunk_elements(dtype, n, world),
                  reference_chunk(n, element_size(dtype), world));
  EXPECT_EQ(exchange::gloo_chunk_elements(DType::f32, 1, 2), 2u);
  EXPECT_EQ(exchange::gloo_chunk_elements(DType::f32, 786433, 3), 262146u);
}

}  // namespace
}  // namespace gradwire::testing
