// Contexts that are used again, and streaming through them.

#include "tensor_testing.h"

namespace gradwire::testing {
namespace {

TEST(Compressor, WritesTheSameFramesAgainAndAgain) {
  TensorMaker make(11);
  std::mt19937_64 random(11);
  Compressor compressor({.level = 3});
  Decompressor decompressor;
  Bytes frame;
  Tensor back;
  for (int trial = 0; trial < 60; ++trial) {
    const DType dtype = static_cast<DType>(1 + random() % 15);
    const Owned tensor =
        make(dtype, draw_shape(random), kContents[random() % std::size(kContents)]);
    compressor.compress(tensor.view(), frame);
    EXPECT_TRUE(frame == compress(tensor.view(), {.level = 3}));
    decompressor.decompress(frame, back);
    EXPECT_EQ(back.shape, tensor.shape);
    EXPECT_TRUE(back.data == tensor.data);
    Bytes out(tensor.data.size());
    decompressor.decompress_into(frame, out);
    EXPECT_TRUE(out == tensor.data);
  }
}

TEST(Compressor, WorksAfterAnError) {
  TensorMaker make(12);
  const Owned tensor = make(DType::f32, {50, 50}, Content::normal);
  Compressor compressor;
  Bytes frame;
  expect_error(ErrorKind::invalid_argument,
               [&] { compressor.compress({DType::f32, tensor.shape, {}}, frame); });
  compressor.compress(tensor.view(), frame);
  EXPECT_TRUE(decompress(frame).data == tensor.data);
}

TEST(Streaming, PiecesOfAnySizeGiveTheSameFrameAndTensor) {
  TensorMaker make(13);
  const Owned tensor = make(DType::bf16, {70, 33}, Content::normal);
  Compressor compressor;
  Bytes frame;
  compressor.begin(tensor.dtype, tensor.shape);
  for (std::size_t at = 0; at < tensor.data.size();) {
    const std::size_t n = std::min<std::size_t>(tensor.data.size() - at, make.random()() % 100);
    compressor.feed(std::span(tensor.data).subspan(at, n));
    at += n;
  }
  compressor.finish(frame);
  EXPECT_TRUE(frame == compress(tensor.view()));

  Decompressor decompressor;
  for (const std::size_t step : {std::size_t{1}, std::size_t{7}, frame.size()}) {
    Bytes out;
    bool complete = false;
    for (std::size_t at = 0; at < frame.size(); at += step) {
      EXPECT_FALSE(complete);
      complete =
          decompressor.feed(std::span(frame).subspan(at, std::min(step, frame.size() - at)), out);
    }
    EXPECT_TRUE(complete);
    EXPECT_TRUE(out == tensor.data);
    ASSERT_TRUE(decompressor.header().has_value());
    EXPECT_EQ(decompressor.header()->shape, tensor.shape);
    EXPECT_EQ(decompressor.header()->dtype, tensor.dtype);
  }
}

TEST(Streaming, TooFewOrTooManyBytesAreRefused) {
  Compressor compressor;
  Bytes frame;
  const Shape shape{10};
  const Bytes data(41);
  expect_error(ErrorKind::invalid_argument, [&] { compressor.feed(data); });
  expect_error(ErrorKind::invalid_argument, [&] { compressor.finish(frame); });
  compressor.begin(DType::f32, shape);
  compressor.feed(data);
  expect_error(ErrorKind::invalid_argument, [&] { compressor.finish(frame); });
  compressor.begin(DType::f32, shape);
  compressor.feed(std::span(data).first(39));
  expect_error(ErrorKind::invalid_argument, [&] { compressor.finish(frame); });
}

TEST(Streaming, ADecompressorCanBeUsedAgainAfterABadFrame) {
  TensorMaker make(14);
  const Owned tensor = make(DType::f32, {300}, Content::normal);
  const Bytes frame = compress(tensor.view());
  Bytes bad = frame;
  bad[bad.size() / 2] ^= 1;
  Decompressor decompressor;
  Bytes out;
  expect_error(ErrorKind::corrupt, [&] { decompressor.feed(bad, out); });
  EXPECT_TRUE(out.empty());
  const Bytes garbage{'n', 'o'};
  expect_error(ErrorKind::corrupt, [&] { decompressor.feed(garbage, out); });
  Bytes longer = frame;
  longer.push_back(0);
  expect_error(ErrorKind::corrupt, [&] { decompressor.feed(longer, out); });
  EXPECT_TRUE(out.empty());
  EXPECT_TRUE(decompressor.feed(frame, out));
  EXPECT_TRUE(out == tensor.data);
}

}  // namespace
}  // namespace gradwire::testing
