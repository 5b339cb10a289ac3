// Taps that are fitted, written and read.

#include "gradwire/error.h"
#include "kernels_testing.h"
#include "stages/predict/kernels_fit.h"

namespace gradwire::predict {
namespace {

template <typename Word>
void check_fit(DType dtype) {
  Maker<Word> make(dtype, 31);
  for (int trial = 0; trial < 100; ++trial) {
    Case<Word> c = make.draw(1 + make.below(60));
    const Taps fitted = fit_taps(dtype, c.parameters, c.words.data(), c.words.size());
    for (unsigned effort = 0; effort <= 3; ++effort) {
      c.taps = with_effort(fitted, effort);
      fit_kernel_scales(dtype, c.parameters, c.taps, c.words.data(), c.words.size(), c.scales);
      ASSERT_NO_FATAL_FAILURE(expect_inverse(c)) << "trial " << trial;
      Bytes bytes;
      ByteWriter out(bytes);
      write_taps(c.taps, out);
      ByteReader in(bytes);
      const Taps back = read_taps(in, static_cast<unsigned>(c.parameters.taps));
      ASSERT_EQ(back.base, c.taps.base);
      ASSERT_EQ(back.effort, effort);
      for (std::size_t t = 0; t < c.parameters.taps; ++t) {
        ASSERT_EQ(back.taps[t].h, c.taps.taps[t].h);
        ASSERT_EQ(back.taps[t].tau, c.taps.taps[t].tau);
        ASSERT_EQ(back.taps[t].coefficients, c.taps.taps[t].coefficients);
      }
    }
  }
}

TEST(Kernels, FittedTapsAreWithinTheFormatWhateverTheData) {
  check_fit<std::uint16_t>(DType::bf16);
  check_fit<std::uint16_t>(DType::f16);
  check_fit<std::uint32_t>(DType::f32);
}

TEST(Kernels, TapsBeyondTheirRangesAreRefused) {
  const auto refused = [](const Taps& taps) {
    Bytes bytes;
    ByteWriter out(bytes);
    write_taps(taps, out);
    ByteReader in(bytes);
    try {
      read_taps(in, static_cast<unsigned>(taps.taps.size()));
    } catch (const Error& error) {
      return error.kind() == ErrorKind::corrupt;
    }
    return false;
  };
  const Taps good{1, 127, {{1, 120, {}}, {24, -65536, {32767}}}};
  EXPECT_FALSE(refused(good));
  for (const unsigned h : {0u, 25u, 255u}) {
    Taps bad = good;
    bad.taps[1].h = h;
    EXPECT_TRUE(refused(bad)) << h;
  }
  for (const std::int32_t value : {65537, -65537}) {
    Taps bad = good;
    bad.base = value;
    EXPECT_TRUE(refused(bad));
    bad = good;
    bad.taps[0].tau = value;
    EXPECT_TRUE(refused(bad));
  }
  Taps bad = good;
  bad.effort = 4;
  EXPECT_TRUE(refused(bad));
  bad = good;
  bad.taps.push_back({1, 0, {-32768, -32768}});  // 65536
  EXPECT_TRUE(refused(bad));
  bad.taps.back().coefficients = {-32768, 32767};  // 65535
  EXPECT_FALSE(refused(bad));
}

}  // namespace
}  // namespace gradwire::predict
