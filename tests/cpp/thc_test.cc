// THC: what is exact, what the mean of ranks errs by, bad input. Seeds are fixed.

#include "lossy/thc/thc.h"

#include <bit>
#include <limits>
#include <random>

#include "base/bytes.h"
#include "base/hash.h"
#include "lossy/transform/hadamard.h"
#include "thc_testing.h"

namespace gradwire::lossy {
namespace {

constexpr std::size_t kTensor = std::size_t{1} << 23;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// --- one rank ------------------------------------------------------------------

TEST(Thc, WorkedByHand) {
  // Entries 0 1 2 3 stand for -t, -t / 3, t / 3, t. A block of 4 values with the norm 2: z = y.
  const TableQuantiser quantiser({.bits = 2, .top = 3, .clipped = 0.05});
  const auto t = static_cast<float>(quantiser.table().limit);
  EXPECT_NEAR(t, 1.959964, 1e-6);
  const PowerBlocks blocks(4, 32);
  const Octets indices = indices_of(quantiser, {-9, -t, t, 9}, blocks, {2}, 1);
  EXPECT_EQ(indices, (Octets{0, 0, 3, 3}));
  Values values(4);
  quantiser.decode(Octets{0, 1, 2, 3}, blocks, Values{2}, values);
  for (unsigned j = 0; j < 4; ++j)
    EXPECT_NEAR(values[j], t * (2.0F * static_cast<float>(j) / 3 - 1), 1e-6F);
  quantiser.decode(Sums{0, 3, 6, 4}, 2, blocks, Values{2}, values);  // the mean of two
  EXPECT_NEAR(values[0], -t, 1e-6F);
  EXPECT_EQ(values[1], 0);
  EXPECT_NEAR(values[2], t, 1e-6F);
  EXPECT_NEAR(values[3], t / 3, 1e-6F);
}

TEST(Thc, EntriesThemselvesComeBack) {
  for (const TableOptions& options :
       {TableOptions{}, TableOptions{.bits = 1, .top = 1}, TableOptions{.bits = 8, .top = 255},
        TableOptions{.bits = 3, .top = 34, .clipped = 1.0 / 32}}) {
    const TableQuantiser quantiser(options);
    const std::size_t n = 1024;
    const PowerBlocks blocks(n, n);
    Octets expected(n), entries(n);
    for (std::size_t i = 0; i < n; ++i)
      expected[i] = static_cast<std::uint8_t>(i % quantiser.table().entries.size());
    quantiser.to_entries(expected, entries);
    Values values(n);
    quantiser.decode(entries, blocks, Values{3}, values);
    // Rounding may leave a value some 2^-22 of the range beside its entry: few draws see that.
    const Octets indices = indices_of(quantiser, values, blocks, {3}, 5);
    EXPECT_EQ(indices, expected);
  }
}

TEST(Thc, IsUnbiasedWithinTheLimitAndClipsBeyond) {
  const TableQuantiser quantiser({});
  const Table& table = quantiser.table();
  const auto limit = static_cast<float>(table.limit);
  constexpr std::size_t kPlaces = 64;
  constexpr int kSeeds = 4000;
  const PowerBlocks blocks(kPlaces, kPlaces);
  Values values(kPlaces);  // with the norm 8 a value is its z
  for (std::size_t i = 0; i < kPlaces; ++i)
    values[i] = 1.1F * limit * (2 * static_cast<float>(i) / (kPlaces - 1) - 1);
  std::vector<double> sums(kPlaces);
  Octets entries(kPlaces);
  Values back(kPlaces);
  for (int seed = 0; seed < kSeeds; ++seed) {
    quantiser.to_entries(
        indices_of(quantiser, values, blocks, {8}, static_cast<std::uint64_t>(seed)), entries);
    quantiser.decode(entries, blocks, Values{8}, back);
    for (std::size_t i = 0; i < kPlaces; ++i) sums[i] += double{back[i]};
  }
  const auto point = [&](unsigned entry) { return (2.0 * entry / table.top - 1) * table.limit; };
  for (std::size_t i = 0; i < kPlaces; ++i) {
    const double z = std::clamp(double{values[i]}, -table.limit, table.limit);
    std::size_t j = 0;
    while (j + 2 < table.entries.size() && point(table.entries[j + 1]) <= z) ++j;
    const double variance = (z - point(table.entries[j])) * (point(table.entries[j + 1]) - z);
    EXPECT_NEAR(sums[i] / kSeeds, z, 4 * std::sqrt(std::max(variance, 0.0) / kSeeds) + 1e-6) << i;
  }
}

TEST(Thc, ErrorOnNormalValuesIsWhatTheTablePromises) {
  const std::size_t n = std::size_t{1} << 18;
  const PowerBlocks blocks(n, kTensor);
  std::mt19937_64 generator(1);
  std::normal_distribution<float> normal;
  Values values(n);
  for (float& value : values) value = normal(generator);
  for (const TableOptions& options :
       {TableOptions{}, TableOptions{.clipped = 1.0 / 32}, TableOptions{.bits = 2, .top = 9},
        TableOptions{.symmetric = false}}) {
    const TableQuantiser quantiser(options);
    const Table& table = quantiser.table();
    const Values norms = norms_of(values, blocks);
    Octets entries = indices_of(quantiser, values, blocks, norms, 3);
    quantiser.to_entries(entries, entries);  // in place
    Values back(n);
    quantiser.decode(entries, blocks, norms, back);
    double error = 0;
    for (std::size_t i = 0; i < n; ++i) error += std::pow(double{back[i]} - double{values[i]}, 2);
    const double promised =
        rounding_error(table.entries, table.top, table.limit) + clipping_error(table.limit);
    EXPECT_NEAR(error / static_cast<double>(n) / promised, 1, 0.02);  // the norm is not sqrt(n)
  }
}

TEST(Thc, DrawsDependOnTheIndexAlone) {
  const TableQuantiser quantiser({});
  const std::size_t n = 4096;
  const Values values = some_values(n, 1);
  const std::uint64_t first = (std::uint64_t{1} << 32) - 1500;  // in the middle of a block
  const auto part = [&](std::size_t begin, std::size_t size) {
    const PowerBlocks blocks(size, 1024);
    const Values run(values.begin() + static_cast<std::ptrdiff_t>(begin),
                     values.begin() + static_cast<std::ptrdiff_t>(begin + size));
    Octets indices(size);
    quantiser.quantise(run, blocks, Values(size / 1024, 18), {.seed = 2, .first = first + begin},
                       indices);
    return indices;
  };
  Octets parts = part(0, 1024);
  const Octets rest = part(1024, n - 1024);
  parts.insert(parts.end(), rest.begin(), rest.end());
  EXPECT_EQ(parts, part(0, n));
}

TEST(Thc, GivesTheSameOnEveryComputer) {
  const std::size_t n = 5000;
  const PowerBlocks blocks(n, 1024);
  Values values = some_values(n, 7);
  values.resize(blocks.padded());
  const Values norms = norms_of(values, blocks);
  rotate(values, blocks, 1);
  const TableQuantiser quantiser({});
  const Octets indices = indices_of(quantiser, values, blocks, norms, 2);
  EXPECT_EQ(hash64(indices), 8653204752863365720u);
  Octets entries(indices.size());
  quantiser.to_entries(indices, entries);
  quantiser.decode(entries, blocks, norms, values);
  Bytes bytes;
  ByteWriter writer(bytes);
  for (const float value : values) writer.u32(std::bit_cast<std::uint32_t>(value));
  for (const float norm : norms) writer.u32(std::bit_cast<std::uint32_t>(norm));
  EXPECT_EQ(hash64(bytes), 9237407638318690438u);
}

// --- edges ------------------------------------------------------------------------

TEST(ThcNorms, AreThoseOfTheBlocksBeforeAndAfterTheRotation) {
  const PowerBlocks blocks(2100, 1024);  // 1024 1024 32 and 20 padded to 32
  Values values(2100, 0.5F);
  EXPECT_EQ(norms_of(values, blocks), (Values{16, 16, std::sqrt(8.0F), std::sqrt(5.0F)}));
  values.resize(blocks.padded());
  rotate(values, blocks, 1);
  const Values rotated = norms_of(Values(values), blocks);
  EXPECT_NEAR(rotated[0], 16, 1e-5);
  EXPECT_NEAR(rotated[2], std::sqrt(8.0), 1e-5);
}

TEST(ThcNorms, OfWhatIsNotFiniteAreInfiniteAndWinTheMaximum) {
  const PowerBlocks blocks(100, 32);
  for (const float bad : {kNan, -kNan, kInf, -kInf, 0x1p113F}) {
    Values values = some_values(100, 1);
    values[40] = bad;
    Values norms;
    EXPECT_FALSE(measure_norms(values, blocks, norms));
    EXPECT_FALSE(norms_are_usable(norms));
    EXPECT_EQ(norms[1], kInf);
    EXPECT_TRUE(std::isfinite(norms[0]) && std::isfinite(norms[2]) && std::isfinite(norms[3]));
    EXPECT_GT(std::bit_cast<std::int32_t>(norms[1]), std::bit_cast<std::int32_t>(kMostNorm));
    const TableQuantiser quantiser({});
    Octets indices(blocks.padded());
    EXPECT_NE(
        refusal(ErrorKind::invalid_argument,
                [&] { quantiser.quantise(Values(blocks.padded()), blocks, norms, {}, indices); })
            .find("norms: inf given for block 1"),
        std::string::npos);
  }
  EXPECT_FALSE(norms_are_usable(Values{kNan}));
  EXPECT_FALSE(norms_are_usable(Values{-1}));
  EXPECT_TRUE(norms_are_usable(Values{0, kMostNorm}));
}

TEST(Thc, ZerosStayZerosAndFewValuesStayValues) {
  const TableQuantiser quantiser({});
  for (const std::size_t n : {0, 1, 2, 3, 31, 33, 100}) {
    const PowerBlocks blocks(n, 1024);
    for (const float factor : {0.0F, 1e-42F, 1.0F, 0x1p100F}) {
      Values values = some_values(n, n);
      for (float& value : values) value *= factor;
      const Values given = values;
      const Values norms = norms_of(values, blocks);
      values.resize(blocks.padded());
      rotate(values, blocks, 4);
      Octets entries = indices_of(quantiser, values, blocks, norms, 5);
      quantiser.to_entries(entries, entries);
      quantiser.decode(entries, blocks, norms, values);
      rotate_back(values, blocks, 4);
      values.resize(n);
      for (std::size_t i = 0; i < n; ++i) ASSERT_TRUE(std::isfinite(values[i]));
      if (factor == 0) {
        EXPECT_EQ(values, given);
      } else if (factor >= 1 && n > 0) {
        EXPECT_LT(error_of_mean({given}, values), 0.1) << n;
      }
    }
  }
}

TEST(Thc, TheLargestNormStaysFinite) {
  const TableQuantiser quantiser({});
  const PowerBlocks blocks(1 << 16, kTensor);
  Values values(1 << 16);
  values[77] = kMostNorm;
  const Values norms = norms_of(values, blocks);
  rotate(values, blocks, 4);
  Octets entries = indices_of(quantiser, values, blocks, norms, 5);
  quantiser.to_entries(entries, entries);
  quantiser.decode(entries, blocks, norms, values);
  rotate_back(values, blocks, 4);
  EXPECT_NEAR(values[77] / kMostNorm, 1, 0.02);
  EXPECT_TRUE(std::ranges::all_of(values, [](float value) { return std::isfinite(value); }));
}

TEST(Thc, RefusesWhatDoesNotFit) {
  const TableQuantiser quantiser({.bits = 3, .top = 20});
  const PowerBlocks blocks(40, 32);
  Values values(40), norms(2);
  Octets octets(40);
  Sums sums(40);
  const auto invalid = ErrorKind::invalid_argument;
  const auto expect = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect(refusal(invalid, [&] { quantiser.quantise(Values(39), blocks, norms, {}, octets); }),
         "rotated: 39 given, 40 needed");
  expect(refusal(invalid, [&] { quantiser.quantise(values, blocks, Values(1), {}, octets); }),
         "norms: 1 given, 2 needed");
  expect(refusal(invalid, [&] { static_cast<void>(measure_norms(Values(39), blocks, norms)); }),
         "values: 39 given, 40 needed");
  norms = {1, 1};
  expect(refusal(invalid, [&] { quantiser.decode(sums, 0, blocks, norms, values); }),
         "terms: 0 given");
  expect(refusal(invalid, [&] { quantiser.decode(sums, 1u << 28, blocks, norms, values); }),
         "terms: 268435456 given, 1 to 53687091");
  sums[3] = 41;
  expect(refusal(ErrorKind::corrupt, [&] { quantiser.decode(sums, 2, blocks, norms, values); }),
         "sums: 41 found, at most 40 allowed for 2 ranks");
  octets[39] = 8;
  const Sums before = sums;
  expect(refusal(ErrorKind::corrupt, [&] { quantiser.add_entries(octets, sums); }),
         "indices: 8 found, below 8");
  EXPECT_EQ(sums, before);
  refusal(ErrorKind::corrupt, [&] { quantiser.to_entries(octets, octets); });
}

}  // namespace
}  // namespace gradwire::lossy
