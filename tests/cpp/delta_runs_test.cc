// Flags as distances between the rarer ones.
#include <optional>

#include <gtest/gtest.h>

#include "base/counter_random.h"
#include "stages/delta/rest.h"
#include "stages/delta/runs.h"

namespace gradwire::delta {
namespace {

using Places = std::vector<std::uint32_t>;

Bytes written(const Places& set, std::uint32_t flags, const RunCode& code) {
  Bytes bytes(static_cast<std::size_t>(run_bits(set, flags, code) / 8) + 1 + 8);
  BitWriter out(bytes.data());
  write_runs(set, flags, code, out);
  bytes.resize(out.finish());
  return bytes;
}

/// What is read; nothing where it is refused, or bits are left.
std::optional<Places> read(const Bytes& bytes, std::uint32_t flags, const RunCode& code) {
  BitReader in(bytes);
  Places set;
  if (!read_runs(in, flags, code, set) || !in.at_exact_end()) return std::nullopt;
  return set;
}

TEST(DeltaRuns, SmallestExampleBitByBit) {
  // Of six flags the second and fifth are set; b = 1. Distance 1: 0, then 1. Distance 2: 1, 0, then
  // 0. One flag is left: 1.
  EXPECT_EQ(written({1, 4}, 6, {1, true}), (Bytes{0b100110}));
  // The flags that are not set: distances 0, 1, 0 and 1: 0, 0; 0, 1; 0, 0; 0, 1.
  EXPECT_EQ(written({1, 4}, 6, {1, false}), (Bytes{0b10001000}));
  EXPECT_EQ(read({0b100110}, 6, {1, true}), (Places{1, 4}));
  EXPECT_EQ(read({0b10001000}, 6, {1, false}), (Places{1, 4}));
}

TEST(DeltaRuns, FlagsComeBackWithEveryCode) {
  for (const std::uint32_t flags : {0u, 1u, 2u, 63u, 64u, 65u, 1000u, 65536u}) {
    for (const std::uint32_t chance : {0u, 1u, 30u, 500u, 990u, 1000u}) {
      Places set;
      for (std::uint32_t i = 0; i < flags; ++i)
        if (random_below(chance, i, 1000) < chance) set.push_back(i);
      for (const bool rare : {true, false}) {
        for (const unsigned low_bits : {0u, 1u, 5u, 16u, 31u}) {
          const RunCode code{low_bits, rare};
          const Bytes bytes = written(set, flags, code);
          EXPECT_EQ(bytes.size(), (run_bits(set, flags, code) + 7) / 8);
          EXPECT_EQ(read(bytes, flags, code), set)
              << flags << " flags, " << chance << ", " << rare << ", " << low_bits;
        }
      }
    }
  }
}

TEST(DeltaRuns, BitsThatNoWriterMakesAreRefused) {
  EXPECT_EQ(read({0b00}, 1, {1, true}), (Places{0}));
  EXPECT_EQ(read({0b10}, 1, {1, true}), std::nullopt);  // distance 1 of 1 flag, told as rare
  EXPECT_EQ(read({}, 1, {0, true}), std::nullopt);      // no bit
  EXPECT_EQ(read({0, 0}, 1, {0, true}), std::nullopt);  // a byte too many
  EXPECT_EQ(read({0b11}, 1, {0, true}), std::nullopt);  // a bit too many
  const Bytes long_run(5, 0xff);
  EXPECT_EQ(read(long_run, 41, {0, true}), std::nullopt);  // ends before the flags do
  EXPECT_EQ(read(long_run, 40, {0, true}), Places{});
}

TEST(DeltaRuns, EveryCutIsRefused) {
  Places set;
  for (std::uint32_t i = 0; i < 4000; ++i)
    if (random_below(3, i, 10) == 0) set.push_back(i);
  for (const bool rare : {true, false}) {
    const RunCode code{2, rare};
    const Bytes whole = written(set, 4000, code);
    for (std::size_t size = 0; size < whole.size(); ++size)
      EXPECT_EQ(
          read(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)), 4000, code),
          std::nullopt)
          << size;
  }
}

TEST(DeltaRest, NumbersOfAllWidthsComeBack) {
  for (const unsigned width : {8u, 16u, 32u, 64u}) {
    const std::uint64_t most = UINT64_MAX >> (64 - width);
    for (unsigned low_bits = 0; low_bits < width; ++low_bits) {
      Bytes bytes(64);
      BitWriter out(bytes.data());
      const std::uint64_t numbers[] = {0, 1, most / 3, most >> low_bits, most};
      for (const std::uint64_t number : numbers) write_rest(number, low_bits, width, out);
      const std::size_t size = out.finish();
      EXPECT_LE(size, (std::size(numbers) * rest_bound(width) + 7) / 8);
      BitReader in(ByteSpan(bytes).first(size));
      for (const std::uint64_t number : numbers)
        EXPECT_EQ(read_rest(in, low_bits, width), number) << width << ", " << low_bits;
      EXPECT_TRUE(in.at_exact_end());
    }
  }
}

}  // namespace
}  // namespace gradwire::delta
