// Values of lossy bodies: what a receiver makes of symbols, and what it refuses.
#include <limits>

#include <gtest/gtest.h>

#include "error_testing.h"
#include "lossy/codec/body.h"
#include "lossy/codec/code_values.h"

namespace gradwire::lossy {
namespace {

using gradwire::testing::refusal;

/// Values of the rule, as a receiver restores them.
std::vector<float> restored(const ValueRule& rule, const Bytes& symbols,
                            const std::vector<float>& scales = {}) {
  std::vector<float> values(symbols.size() / element_size(rule.dtype));
  restore_values(rule, symbols, scales, values);
  return values;
}

TEST(LossyValues, WhatRoundsBeyondTheLargestFloatBecomesIt) {
  const float most = std::numeric_limits<float>::max();
  ValueRule rule{.dtype = DType::f16, .shift = 300};
  EXPECT_EQ(restored(rule, {0x01, 0x00, 0x01, 0x80, 0x00, 0x00}),
            (std::vector<float>{most, -most, 0}));
  rule.shift = -300;
  EXPECT_EQ(restored(rule, {0xff, 0x7b}), std::vector<float>{0});
  const ValueRule table{.form = ValueForm::table, .dtype = DType::u8, .table = {-1e30F, 2, 1e-3F}};
  EXPECT_EQ(restored(table, {0, 1, 2}, {1e38F}), (std::vector<float>{-most, 2e38F, 1e-3F * 1e38F}));
}

TEST(LossyValues, TheLargestFloatGoesInHalvesToo) {
  // Moved under 2^15 it rounds to 2^15, and back that would be 2^128.
  const float most = std::numeric_limits<float>::max();
  const std::vector<float> values{most, -1};
  CodeMemory memory;
  Coded coded;
  ASSERT_TRUE(
      code_values(values, QuantiseOptions{.kind = QuantiserKind::f16}, {0, 0}, memory, coded));
  EXPECT_EQ(restored(coded.rule, coded.symbols), (std::vector<float>{most, 0}));
}

TEST(LossyValues, ElementsThatAreNotFiniteAreRefused) {
  for (const unsigned bits : {0x7f80u, 0xff80u, 0x7fc0u, 0xffffu}) {
    const auto low = static_cast<std::uint8_t>(bits & 0xff),
               high = static_cast<std::uint8_t>(bits >> 8);
    const ValueRule brain{.dtype = DType::bf16};
    const ValueRule whole{.dtype = DType::f32};
    refusal(ErrorKind::corrupt, [&] { restored(brain, {0, 0, low, high}); });
    refusal(ErrorKind::corrupt, [&] { restored(whole, {0, 0, low, high}); });
  }
  const ValueRule half{.dtype = DType::f16};
  refusal(ErrorKind::corrupt, [&] { restored(half, {0x00, 0xfc}); });
  EXPECT_EQ(restored(half, {0xff, 0xfb}), std::vector<float>{-65504});
}

TEST(LossyValues, SelectionsAreOfTensorsBelow2To31Elements) {
  for (const std::uint64_t n : {std::uint64_t{INT32_MAX}, std::uint64_t{1} << 31}) {
    const std::vector<std::uint64_t> dims{n};
    Bytes bytes;
    ByteWriter out(bytes);
    Bytes tensor;
    ByteWriter fields(tensor);
    frame::TensorHeader header;
    header.dtype = DType::f16;
    header.dims = dims;
    header.pipeline = frame::Pipeline::lossy;
    frame::write_tensor_header(header, fields);
    fields.u8(2);
    fields.varint(0);
    frame::write_section(frame::Section::tensor, tensor, out);
    frame::write_section(frame::Section::selected, {}, out);
    if (n == INT32_MAX)
      EXPECT_EQ(read_body(bytes, BodyPlace{}, UINT64_MAX).header.elements, n);
    else
      refusal(ErrorKind::corrupt, [&] { read_body(bytes, BodyPlace{}, UINT64_MAX); });
  }
}

}  // namespace
}  // namespace gradwire::lossy
