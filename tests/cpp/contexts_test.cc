// Contexts that are used again.

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

}  // namespace
}  // namespace gradwire::testing
