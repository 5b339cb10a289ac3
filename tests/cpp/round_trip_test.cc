// Whole tensors through the public calls: whatever the options, the same bits come back.

#include "tensor_testing.h"

namespace gradwire::testing {
namespace {

constexpr std::uint64_t kSizes[] = {
    0,   1,    2,    3,    7,    8,    9,    31,   32,    33,    63,    64,    65,    255,   256,
    257, 1000, 2047, 2048, 2049, 8191, 8192, 8193, 16384, 32767, 65535, 65536, 65537, 131073};

/// Shapes of n elements: flat, and as many matrices and kernels as divide it.
std::vector<Shape> shapes_of(std::uint64_t n) {
  std::vector<Shape> shapes{{n}};
  if (n == 0) return {{0}, {3, 0}, {0, 5, 7}};
  shapes.push_back({1, n});
  shapes.push_back({n, 1});
  for (const std::uint64_t rows : {2u, 3u, 7u, 32u, 73u}) {
    if (n % rows == 0 && n > rows) shapes.push_back({rows, n / rows});
  }
  if (n % 9 == 0) shapes.push_back({n / 9, 1, 3, 3});
  return shapes;
}

TEST(RoundTrip, SmallestExample) {
  const Owned one{DType::bf16, {}, {0x80, 0x3F}};
  const Bytes frame = expect_round_trip(one);
  EXPECT_EQ(frame_size(frame), frame.size());
  EXPECT_FALSE(is_archive(frame));
}

TEST(RoundTrip, EveryDtypeAndContentAtEveryLevel) {
  TensorMaker make(1);
  for (const DType dtype : all_dtypes()) {
    for (const Content content : kContents) {
      for (int level = 1; level <= 3; ++level) {
        for (const Shape& shape : {Shape{40, 60}, Shape{33, 4, 3, 3}, Shape{777}}) {
          expect_round_trip(make(dtype, shape, content), {.level = level});
        }
      }
    }
  }
}

TEST(RoundTrip, SizesAroundEveryBorder) {
  TensorMaker make(2);
  int turn = 0;
  for (const std::uint64_t n : kSizes) {
    for (const DType dtype : kFloats) {
      for (const Shape& shape : shapes_of(n)) {
        constexpr Content kTurns[] = {Content::normal, Content::mostly_zero, Content::random_bits,
                                      Content::mean_of_bf16, Content::specials};
        // Large ones take turns, small ones do all.
        for (const Content content : kTurns) {
          if (n > 3000 && content != kTurns[turn++ % 5]) continue;
          const int level = n > 3000 ? 1 + turn % 3 : 3;
          expect_round_trip(make(dtype, shape, content), {.level = level});
        }
      }
    }
  }
}

TEST(RoundTrip, IntegersAndBytesOfEverySize) {
  TensorMaker make(3);
  for (const std::uint64_t n : kSizes) {
    for (const DType dtype :
         {DType::f8_e4m3, DType::i8, DType::u16, DType::i32, DType::u64, DType::boolean}) {
      for (const Content content : {Content::normal, Content::random_bits, Content::mostly_zero}) {
        if (n > 9000 && content != Content::normal) continue;
        expect_round_trip(make(dtype, {n}, content));
      }
    }
  }
}

TEST(RoundTrip, AnyRankUpTo32) {
  TensorMaker make(4);
  for (std::size_t rank = 0; rank <= 32; ++rank) {
    Shape shape(rank, 1);
    for (std::size_t d = 0; d < std::min<std::size_t>(rank, 8); ++d)
      shape[d * 5 % rank] = 1 + (d + rank) % 3;
    for (const DType dtype : {DType::f32, DType::bf16, DType::i16}) {
      expect_round_trip(make(dtype, shape, Content::normal), {.level = 3});
    }
  }
}

/// All patterns of 16 bits, and of the others each exponent x {0, 1, largest} fraction x sign.
Owned all_patterns(DType dtype) {
  const std::size_t width = element_size(dtype);
  Owned tensor{dtype, {}, {}};
  const auto put = [&](std::uint64_t bits) {
    for (std::size_t b = 0; b < width; ++b)
      tensor.data.push_back(static_cast<std::uint8_t>(bits >> 8 * b));
  };
  if (width == 2) {
    for (std::uint64_t bits = 0; bits < 65536; ++bits) put(bits);
  } else {
    const unsigned fraction_bits = width == 4 ? 23 : 52;
    const std::uint64_t most = (std::uint64_t{1} << fraction_bits) - 1;
    for (std::uint64_t high = 0; high < std::uint64_t{1} << (8 * width - fraction_bits); ++high) {
      for (const std::uint64_t fraction : {std::uint64_t{0}, std::uint64_t{1}, most})
        put(high << fraction_bits | fraction);
    }
  }
  tensor.shape = {tensor.data.size() / width};
  return tensor;
}

TEST(RoundTrip, AllPatternsAtEachLevelAndCoder) {
  for (const DType dtype : kFloats) {
    Owned tensor = all_patterns(dtype);
    const std::uint64_t n = tensor.shape[0];
    for (int level = 1; level <= 3; ++level) {
      for (const Coder coder : {Coder::automatic, Coder::huffman, Coder::ans, Coder::stored}) {
        for (const Shape& shape : {Shape{n}, Shape{64, n / 64}, Shape{n / 64, 4, 16}}) {
          if (element_count(shape) != n) continue;
          tensor.shape = shape;
          expect_round_trip(tensor, {.level = level, .coder = coder});
        }
      }
    }
  }
}

/// Shuffled among ordinary values, the same patterns come as escapes.
TEST(RoundTrip, AllPatternsAsRareValues) {
  TensorMaker make(6);
  for (const DType dtype : kFloats) {
    const Owned patterns = all_patterns(dtype);
    const std::size_t width = element_size(dtype);
    const std::uint64_t n = patterns.shape[0];
    Owned tensor = make(dtype, {n / 8, 4, 2, 4}, Content::smooth);
    ASSERT_LE(tensor.data.size() / width, 4 * n);
    for (std::uint64_t i = 0; i < tensor.data.size() / width; i += 5) {
      std::memcpy(tensor.data.data() + i * width, patterns.data.data() + i * 13 % n * width, width);
    }
    for (int level = 1; level <= 3; ++level) expect_round_trip(tensor, {.level = level});
  }
}

CompressOptions draw_options(std::mt19937_64& random) {
  CompressOptions options;
  options.level = 1 + static_cast<int>(random() % 3);
  options.coder = static_cast<Coder>(random() % 4);
  options.tables = static_cast<Tables>(random() % 4);
  options.zeros = static_cast<Zeros>(random() % 5);
  options.pairs = random() % 2 == 0;
  options.checksum = random() % 4 != 0;
  options.threads = 1 + static_cast<int>(random() % 3);
  return options;
}

TEST(RoundTrip, AnyOptions) {
  TensorMaker make(7);
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 3000; ++trial) {
    const Content content = kContents[random() % std::size(kContents)];
    const DType dtype =
        random() % 3 == 0 ? static_cast<DType>(1 + random() % 15) : kFloats[random() % 4];
    const Owned tensor = make(dtype, draw_shape(random), content);
    expect_round_trip(tensor, draw_options(random));
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(RoundTrip, ThreadsDoNotChangeTheBytes) {
  TensorMaker make(8);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64, DType::u16}) {
    for (const Content content : {Content::normal, Content::mostly_zero, Content::mean_of_bf16}) {
      const Owned tensor = make(dtype, {300, 64, 3, 3}, content);
      for (int level = 1; level <= 3; level += 2) {
        const Bytes one = expect_round_trip(tensor, {.level = level, .threads = 1});
        for (const int threads : {2, 5}) {
          EXPECT_TRUE(compress(tensor.view(), {.level = level, .threads = threads}) == one);
          EXPECT_TRUE(decompress(one, {.threads = threads}).data == tensor.data);
        }
      }
    }
  }
}

TEST(RoundTrip, RangesAreSlices) {
  TensorMaker make(9);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i8}) {
    const Owned tensor = make(dtype, {200, 90, 3, 3}, Content::mostly_zero);
    const std::uint64_t n = element_count(tensor.shape);
    const std::size_t width = element_size(dtype);
    const Bytes frame = expect_round_trip(tensor, {.level = 3});
    std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges{
        {0, 0},         {0, 1},          {n, n},        {n - 1, n},
        {65535, 65537}, {65536, 131072}, {100, 140000}, {65520, 65530}};
    for (int k = 0; k < 10; ++k) {
      const std::uint64_t first = make.random()() % n;
      ranges.emplace_back(first, first + make.random()() % (n - first + 1));
    }
    for (const auto& [first, last] : ranges) {
      const Bytes slice(tensor.data.begin() + static_cast<std::ptrdiff_t>(first * width),
                        tensor.data.begin() + static_cast<std::ptrdiff_t>(last * width));
      EXPECT_TRUE(decompress_range(frame, first, last) == slice) << first << ":" << last;
    }
    expect_error(ErrorKind::invalid_argument, [&] { decompress_range(frame, 5, 4); });
    expect_error(ErrorKind::invalid_argument, [&] { decompress_range(frame, 0, n + 1); });
    expect_error(ErrorKind::invalid_argument,
                 [&] { decompress_range(frame, UINT64_MAX, UINT64_MAX); });
  }
}

TEST(RoundTrip, RangesAreHeldAgainstTheBudget) {
  const Owned tensor{DType::f32, {100000}, Bytes(400000, 7)};
  const Bytes frame = compress(tensor.view());
  EXPECT_EQ(decompress_range(frame, 0, 250, {.max_output = 1000}).size(), 1000u);
  expect_error(ErrorKind::limit, [&] { decompress_range(frame, 0, 251, {.max_output = 1000}); });
}

TEST(Compression, GradientsOfEachKindBecomeSmaller) {
  TensorMaker make(17);
  const auto fraction = [&](DType dtype, Content content, int level) {
    const Owned tensor = make(dtype, {256, 256}, content);
    return static_cast<double>(compress(tensor.view(), {.level = level}).size()) /
           static_cast<double>(tensor.data.size());
  };
  for (int level = 1; level <= 3; ++level) {
    EXPECT_LT(fraction(DType::bf16, Content::normal, level), 0.80);
    EXPECT_LT(fraction(DType::f32, Content::normal, level), 0.92);
    EXPECT_LT(fraction(DType::f32, Content::bf16_values, level), 0.45);
    EXPECT_LT(fraction(DType::f32, Content::mostly_zero, level), 0.30);
    EXPECT_LT(fraction(DType::f32, Content::constant, level), 0.01);
    EXPECT_LE(fraction(DType::f32, Content::random_bits, level), 1.001);
  }
}

}  // namespace
}  // namespace gradwire::testing
