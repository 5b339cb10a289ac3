// Lossy bodies: what is written comes back, and hostile bytes are refused.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "error_testing.h"
#include "lossy_frames_testing.h"

namespace gradwire::lossy {
namespace {

using testing::random_values;
using testing::some;

struct Written {
  Bytes bytes;
  std::size_t size = 0;  ///< without the bytes behind
  BodyBytes parts;
  std::vector<float> values;  ///< what was sent, as the sender decodes it
};

Written write(const Outline& outline, std::span<const float> values, const ValueCoding& coding,
              BodyEnd end = BodyEnd::none) {
  CodeMemory codes;
  Coded coded;
  BodyMemory memory;
  Written written;
  EXPECT_TRUE(code_values(values, coding, {7, 0}, codes, coded));
  written.parts = write_body(outline, coded, end, 0, memory, written.bytes);
  written.size = written.bytes.size();
  written.values.resize(values.size());
  restore_values(coded.rule, coded.symbols, coded.scales, written.values);
  written.bytes.resize(written.size + 16);
  return written;
}

Selected read(const Written& written, BodyEnd end = BodyEnd::none) {
  BodyPlace place;
  place.end = end;
  const Body body = read_body(ByteSpan(written.bytes).first(written.size), place, UINT64_MAX);
  DecodeMemory memory;
  Selected selected;
  decode_body(body, memory, selected);
  return selected;
}

std::vector<QuantiseOptions> all_codings() {
  std::vector<QuantiseOptions> list;
  for (const auto kind :
       {QuantiserKind::uniform, QuantiserKind::ternary, QuantiserKind::sign, QuantiserKind::natural,
        QuantiserKind::bf16, QuantiserKind::f16, QuantiserKind::e4m3, QuantiserKind::e5m2}) {
    QuantiseOptions options{.kind = kind};
    if (kind == QuantiserKind::sign) options.norm = Norm::l1;
    list.push_back(options);
  }
  list.push_back({.levels = 1000, .bucket_values = 0});
  return list;
}

TEST(LossyBody, EveryCodingComesBackAsTheSenderDecodesIt) {
  for (const std::size_t n : {1u, 2u, 100u, 5000u}) {
    const std::vector<float> values = random_values(n, n);
    const std::vector<std::uint64_t> dims{n};
    for (const QuantiseOptions& options : all_codings()) {
      const Written written = write({.dims = dims}, values, options);
      const Selected selected = read(written);
      EXPECT_TRUE(selected.all);
      EXPECT_EQ(selected.values, written.values);
      EXPECT_LE(written.size, body_bound(n, options.bucket_values));
    }
    EXPECT_EQ(read(write({.dims = dims}, values, ExactValues())).values, values);
  }
}

TEST(LossyBody, SelectionsOfEveryDensityComeBack) {
  const std::size_t n = 20000;
  const std::vector<std::uint64_t> dims{100, 200};
  for (const std::uint32_t step : {1u, 2u, 10u, 40u, 1000u, 19999u}) {
    const Indices indices = some(n, step, step);
    const std::vector<float> values = random_values(indices.size(), 3);
    const Outline outline{.dims = dims, .selection = Selection::gaps, .indices = indices};
    const Selected selected = read(write(outline, values, ExactValues()));
    EXPECT_EQ(selected.indices, indices);
    EXPECT_EQ(selected.values, values);
  }
}

TEST(LossyBody, NothingSelectedIsABodyOfAFewBytes) {
  const std::vector<std::uint64_t> dims{1000, 1000};
  const Written written = write({.dims = dims, .selection = Selection::gaps}, {}, ExactValues());
  const Selected selected = read(written);
  EXPECT_FALSE(selected.all);
  EXPECT_TRUE(selected.indices.empty());
  EXPECT_LE(written.size, 16u);
}

TEST(LossyBody, ADrawnSelectionCostsItsSeedOnly) {
  const std::size_t n = 10000;
  const std::vector<std::uint64_t> dims{n};
  for (const std::size_t k : {1u, 100u, 5000u, 5001u, 9999u}) {
    SelectScratch scratch;
    SidcoState state;
    Indices indices;
    const std::vector<float> whole(n);
    select(whole, {.selector = Selector::random_k, .count = k, .seed = 99}, state, scratch,
           indices);
    const std::vector<float> values = random_values(k, 5);
    const Outline outline{
        .dims = dims, .selection = Selection::drawn, .indices = indices, .seed = 99};
    const Written written = write(outline, values, ExactValues());
    EXPECT_EQ(written.parts.index, 0u);
    const Selected selected = read(written);
    EXPECT_EQ(selected.indices, indices);
    EXPECT_EQ(selected.values, values);
  }
}

TEST(LossyBody, AGapCostsNearlyItsEntropy) {
  // At a density of a thousandth a gap has 11.41 bits.
  const std::size_t n = 4'000'000;
  const std::vector<std::uint64_t> dims{n};
  const Indices indices = some(n, 1000, 12);
  const Written written = write({.dims = dims, .selection = Selection::gaps, .indices = indices},
                                random_values(indices.size(), 1), ExactValues());
  EXPECT_LE(8.0 * static_cast<double>(written.parts.index) / static_cast<double>(indices.size()),
            11.6);
}

TEST(LossyBody, HalvesKeepTheirPrecisionHoweverSmallValuesAre) {
  const QuantiseOptions f16{.kind = QuantiserKind::f16};
  std::vector<float> values = random_values(1000, 8);
  for (float& value : values) value = (value + 0.01F) * 1e-20F;
  const std::vector<std::uint64_t> dims{values.size()};
  const Selected selected = read(write({.dims = dims}, values, f16));
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_LE(std::abs(selected.values[i] - values[i]), std::abs(values[i]) * 0x1p-11F);
}

TEST(LossyBody, AFlippedBitOfACheckedBodyIsAnError) {
  const std::size_t n = 300;
  const std::vector<std::uint64_t> dims{n};
  const Indices indices = some(n, 10, 4);
  Written written = write({.dims = dims, .selection = Selection::gaps, .indices = indices},
                          random_values(indices.size(), 1),
                          QuantiseOptions{.kind = QuantiserKind::f16}, BodyEnd::archive);
  EXPECT_EQ(read(written, BodyEnd::archive).indices, indices);
  for (std::size_t bit = 0; bit < 8 * written.size; ++bit) {
    written.bytes[bit / 8] ^= static_cast<std::uint8_t>(1u << (bit % 8));
    EXPECT_THROW(read(written, BodyEnd::archive), Error) << "bit " << bit;
    written.bytes[bit / 8] ^= static_cast<std::uint8_t>(1u << (bit % 8));
  }
}

TEST(LossyBody, DamageWithoutAChecksumNeverReadsPastTheEnd) {
  const std::size_t n = 300;
  const std::vector<std::uint64_t> dims{n};
  const Indices indices = some(n, 3, 4);
  for (const QuantiseOptions& options : all_codings()) {
    Written written = write({.dims = dims, .selection = Selection::gaps, .indices = indices},
                            random_values(indices.size(), 1), options);
    for (std::size_t bit = 0; bit < 8 * written.size; ++bit) {
      written.bytes[bit / 8] ^= static_cast<std::uint8_t>(1u << (bit % 8));
      try {
        const Body body =
            read_body(ByteSpan(written.bytes).first(written.size), BodyPlace{}, 4 * n);
        DecodeMemory memory;
        Selected selected;
        decode_body(body, memory, selected);
        for (const std::uint32_t i : selected.indices) EXPECT_LT(i, body.header.elements);
      } catch (const Error&) {  // as it should be, most times
      }
      written.bytes[bit / 8] ^= static_cast<std::uint8_t>(1u << (bit % 8));
    }
  }
}

TEST(LossyBody, PlacedValuesAreRoundedAndStayFinite) {
  const Selected selected{false, {1, 2, 3}, {1.0F + 0x1p-9F, 3.4e38F, -1e9F}};
  std::vector<std::uint8_t> elements(10, 0xff);
  place_values(selected, DType::bf16, elements);
  EXPECT_EQ(load<std::uint16_t>(&elements[0]), 0u);
  EXPECT_EQ(load<std::uint16_t>(&elements[2]), 0x3f80u);
  EXPECT_EQ(load<std::uint16_t>(&elements[4]), 0x7f7fu);
  EXPECT_EQ(load<std::uint16_t>(&elements[8]), 0u);
  place_values(selected, DType::f16, elements);
  EXPECT_EQ(load<std::uint16_t>(&elements[6]), 0xfbffu);
}

TEST(LossyBody, WhatIsNotFiniteIsReported) {
  CodeMemory codes;
  Coded coded;
  const std::vector<float> values{1, std::nanf(""), 2};
  for (const QuantiseOptions& options : all_codings())
    EXPECT_FALSE(code_values(values, options, {1, 0}, codes, coded));
  EXPECT_FALSE(code_values(values, ExactValues(), {1, 0}, codes, coded));
}

}  // namespace
}  // namespace gradwire::lossy
