// What the public calls refuse, promise and tell.

#include <climits>

#include "tensor_testing.h"

namespace gradwire::testing {
namespace {

TEST(Arguments, WhatTheCallerCanFixIsSaid) {
  const Bytes data(64);
  const auto refused = [&](const TensorView& view, const CompressOptions& options = {}) {
    expect_error(ErrorKind::invalid_argument, [&] { compress(view, options); });
  };
  const Shape good{16}, wrong{15}, huge(32, 1u << 20), ranks(33, 1);
  const Shape wraps{std::uint64_t{1} << 63, 2};
  const Shape wraps_to_good{(std::uint64_t{1} << 62) + 4, 4};
  refused({DType::f32, wrong, data});
  refused({DType::f32, huge, data});
  refused({DType::f32, ranks, std::span(data).first(4)});
  refused({DType::f32, wraps, {}});
  refused({DType::f32, wraps_to_good, data});
  refused({static_cast<DType>(0), good, data});
  refused({static_cast<DType>(16), good, data});
  for (const int level : {0, 4, -1}) refused({DType::f32, good, data}, {.level = level});
  for (const int threads : {0, -1, 1025}) refused({DType::f32, good, data}, {.threads = threads});
}

TEST(Arguments, DecompressRefusesTheSameThreadsAsCompress) {
  const Bytes frame = compress(Owned{DType::u8, {3}, {1, 2, 3}}.view());
  for (const int threads : {0, -1, 1025, INT_MAX}) {
    expect_error(ErrorKind::invalid_argument, [&] { decompress(frame, {.threads = threads}); });
  }
}

TEST(Bound, IsKeptByTensorsThatCannotBeCompressed) {
  TensorMaker make(15);
  for (const DType dtype : all_dtypes()) {
    for (const std::uint64_t n : {0u, 1u, 2u, 5u, 100u, 65536u, 65537u}) {
      Shape shape(32, 1);
      shape[31] = n;
      const Owned tensor = make(dtype, shape, Content::random_bits);
      for (int level = 1; level <= 3; ++level) {
        EXPECT_LE(compress(tensor.view(), {.level = level}).size(), compress_bound(dtype, n));
      }
    }
  }
}

TEST(DecompressInto, NeedsExactlyTheTensorsSize) {
  TensorMaker make(10);
  const Owned tensor = make(DType::f16, {123, 45}, Content::normal);
  const Bytes frame = compress(tensor.view());
  Bytes out(tensor.data.size());
  decompress_into(frame, out);
  EXPECT_TRUE(out == tensor.data);
  Bytes smaller(out.size() - 2);
  Bytes larger(out.size() + 2);
  expect_error(ErrorKind::invalid_argument, [&] { decompress_into(frame, smaller); });
  expect_error(ErrorKind::invalid_argument, [&] { decompress_into(frame, larger); });
  expect_error(ErrorKind::invalid_argument, [&] { decompress_into(frame, {}); });
}

TEST(Info, SaysWhatTheFrameHolds) {
  TensorMaker make(16);
  const Owned tensor = make(DType::f32, {64, 32, 3, 3}, Content::dead_lines);
  const Bytes frame = compress(tensor.view(), {.level = 3});
  const TensorInfo info = tensor_info(frame);
  EXPECT_EQ(info.dtype, tensor.dtype);
  EXPECT_EQ(info.shape, tensor.shape);
  EXPECT_EQ(info.elements, element_count(tensor.shape));
  EXPECT_EQ(info.original_bytes, tensor.data.size());
  EXPECT_EQ(info.compressed_bytes, frame.size());
  EXPECT_TRUE(info.checksums);
  for (const std::string& text :
       {info.pipeline, info.prediction, info.signs, info.zeros, info.fractions, info.tables}) {
    EXPECT_FALSE(text.empty());
  }
}

TEST(Info, TheHeaderIsReadAlone) {
  TensorMaker make(17);
  for (const DType dtype : all_dtypes()) {
    for (const Shape& shape : {Shape{}, Shape{0, 4}, Shape{30, 50}}) {
      const Owned tensor = make(dtype, shape, Content::normal);
      const Tensor header = tensor_header(compress(tensor.view()));
      EXPECT_EQ(header.dtype, dtype);
      EXPECT_EQ(header.shape, shape);
      EXPECT_TRUE(header.data.empty());
    }
  }
  const Owned tensor = make(DType::bf16, {30, 50}, Content::normal);
  Bytes frame = compress(tensor.view());
  frame[frame.size() / 2] ^= 1;
  EXPECT_EQ(tensor_header(frame).shape, tensor.shape) << "what follows is not looked at";
  expect_error(ErrorKind::truncated, [&] { tensor_header(std::span(frame).first(20)); });
  expect_error(ErrorKind::invalid_argument, [&] { tensor_header(ArchiveWriter().finish()); });
}

}  // namespace
}  // namespace gradwire::testing
