// Tensors and frames that come in pieces, through Compressor and Decompressor.

#include "hostile_testing.h"

namespace gradwire::testing {
namespace {

/// Sizes that sum to n, from 0 to `most`.
std::vector<std::size_t> random_pieces(std::size_t n, std::size_t most, std::mt19937_64& random) {
  std::vector<std::size_t> sizes;
  while (n > 0) {
    sizes.push_back(std::min<std::size_t>(n, random() % (most + 1)));
    n -= sizes.back();
  }
  return sizes;
}

bool begins_with(const Bytes& whole, const Bytes& start) {
  return start.size() <= whole.size() && std::equal(start.begin(), start.end(), whole.begin());
}

/// Feeds all pieces; each may add to what was restored only, and only the last completes the frame.
void expect_fed(Decompressor& decompressor, const Bytes& frame, const Bytes& data,
                const std::vector<std::size_t>& sizes) {
  Bytes out;
  std::size_t at = 0;
  for (const std::size_t size : sizes) {
    const Bytes piece = exact(std::span(frame).subspan(at, size));
    at += size;
    ASSERT_EQ(decompressor.feed(piece, out), at == frame.size()) << "at byte " << at;
    ASSERT_TRUE(begins_with(data, out)) << "at byte " << at;
    ASSERT_EQ(error_kind([&] { decompressor.finish(); }),
              at == frame.size() ? 0 : static_cast<int>(ErrorKind::truncated));
  }
  EXPECT_TRUE(out == data);
}

std::vector<std::size_t> equal_pieces(std::size_t n, std::size_t size) {
  std::vector<std::size_t> sizes(n / size, size);
  if (n % size != 0) sizes.push_back(n % size);
  return sizes;
}

/// Of more than one chunk, the last one short.
Owned large_tensor(std::uint64_t seed) {
  return TensorMaker(seed)(DType::bf16, {210000}, Content::normal);
}

TEST(Streaming, TensorsInPiecesOfAnySizeGiveTheSameFrame) {
  TensorMaker make(13);
  Compressor compressor;
  for (const Shape& shape : {Shape{70, 33}, Shape{}, Shape{0, 3}}) {
    const Owned tensor = make(DType::bf16, shape, Content::normal);
    Bytes frame;
    compressor.begin(tensor.dtype, tensor.shape);
    std::size_t at = 0;
    for (const std::size_t size : random_pieces(tensor.data.size(), 100, make.random())) {
      compressor.feed(std::span(tensor.data).subspan(at, size));
      at += size;
    }
    compressor.finish(frame);
    EXPECT_TRUE(frame == compress(tensor.view()));
  }
}

TEST(Streaming, TooFewOrTooManyBytesAreRefused) {
  Compressor compressor;
  Bytes frame;
  const Shape shape{10}, huge(32, 1u << 20);
  const Bytes data(41);
  expect_error(ErrorKind::invalid_argument, [&] { compressor.feed(data); });
  expect_error(ErrorKind::invalid_argument, [&] { compressor.finish(frame); });
  expect_error(ErrorKind::invalid_argument, [&] { compressor.begin(DType::f32, huge); });
  expect_error(ErrorKind::invalid_argument,
               [&] { compressor.begin(static_cast<DType>(99), shape); });
  compressor.begin(DType::f32, shape);
  expect_error(ErrorKind::invalid_argument, [&] { compressor.feed(data); });
  compressor.feed(std::span(data).first(39));
  expect_error(ErrorKind::invalid_argument, [&] { compressor.finish(frame); });
  compressor.begin(DType::f32, shape);
  compressor.feed(std::span(data).first(40));
  compressor.finish(frame);
  EXPECT_EQ(decompress(frame).data, Bytes(40));
}

TEST(Streaming, FramesComeBackFromPiecesOfAnySize) {
  std::mt19937_64 random(14);
  Decompressor decompressor;
  for (const NamedFrame& named : small_frames()) {
    if (is_archive(named.frame)) continue;
    SCOPED_TRACE(named.name);
    const std::size_t n = named.frame.size();
    for (const std::size_t size : {std::size_t{1}, std::size_t{7}, n}) {
      expect_fed(decompressor, named.frame, named.data, equal_pieces(n, size));
    }
    for (int trial = 0; trial < 20; ++trial) {
      Decompressor fresh;  // the last one is still complete for pieces of no bytes
      expect_fed(fresh, named.frame, named.data, random_pieces(n, n / 2, random));
    }
    const Tensor whole = decompress(named.frame);
    ASSERT_TRUE(decompressor.header().has_value());
    EXPECT_EQ(decompressor.header()->shape, whole.shape);
    EXPECT_EQ(decompressor.header()->dtype, whole.dtype);
  }
}

TEST(Streaming, FramesOfManyChunksComeBackOnAnyNumberOfThreads) {
  const Owned tensor = large_tensor(15);
  std::mt19937_64 random(15);
  for (const bool checksum : {true, false}) {
    const Bytes frame = compress(tensor.view(), {.checksum = checksum});
    for (const int threads : {1, 3}) {
      for (const std::size_t most : {std::size_t{3000}, frame.size() / 2, 2 * frame.size()}) {
        Decompressor decompressor({.threads = threads});
        expect_fed(decompressor, frame, tensor.data, random_pieces(frame.size(), most, random));
      }
    }
  }
}

TEST(Streaming, AChunkComesOutOnceItIsComplete) {
  const Owned tensor = large_tensor(16);
  const Bytes frame = compress(tensor.view());
  const std::uint64_t chunks = tensor_info(frame).chunks;
  ASSERT_EQ(chunks, 4u);
  Decompressor decompressor;
  Bytes out, all;
  std::size_t first_output = 0;
  for (std::size_t at = 0; at < frame.size(); at += 1000) {
    out.clear();  // the caller may take what there is
    const std::size_t size = std::min<std::size_t>(1000, frame.size() - at);
    const bool complete = decompressor.feed(std::span(frame).subspan(at, size), out);
    EXPECT_EQ(complete, at + size == frame.size());
    EXPECT_TRUE(at < 3000 || decompressor.header().has_value()) << "the head is at the front";
    if (first_output == 0 && !out.empty()) first_output = at;
    all.insert(all.end(), out.begin(), out.end());
  }
  EXPECT_TRUE(all == tensor.data);
  EXPECT_LT(first_output, frame.size() * 4 / 10);
  // All values are there before the trailer, which has the checksums.
  out.clear();
  EXPECT_FALSE(decompressor.feed(std::span(frame).first(frame.size() - 33), out));
  EXPECT_TRUE(out == tensor.data);
}

TEST(Streaming, APrefixIsNotComplete) {
  for (const NamedFrame& named : small_frames()) {
    if (is_archive(named.frame)) continue;
    Decompressor decompressor;
    Bytes out;
    for (std::size_t n = 0; n < named.frame.size(); ++n) {
      expect_error(ErrorKind::truncated, [&] { decompressor.finish(); });
      ASSERT_EQ(decompressor.feed(std::span(named.frame).subspan(n, 1), out),
                n + 1 == named.frame.size());
    }
    decompressor.finish();
  }
}

TEST(Streaming, EveryFlippedBitIsNoticed) {
  std::mt19937_64 random(17);
  Decompressor decompressor;
  for (const NamedFrame& named : small_frames()) {
    if (is_archive(named.frame)) continue;
    Bytes frame = named.frame;
    for (std::size_t bit = 0; bit < 8 * frame.size(); bit += 3) {
      const auto flip = static_cast<std::uint8_t>(1u << (bit & 7));
      frame[bit / 8] ^= flip;
      const std::size_t half = random() % frame.size();
      const int kind = error_kind([&] {
        Bytes out;
        decompressor.feed(std::span(frame).first(half), out);
        decompressor.feed(std::span(frame).subspan(half), out);
        decompressor.finish();
      });
      ASSERT_NE(kind, 0) << named.name << ", bit " << bit % 8 << " of byte " << bit / 8;
      if (kind == static_cast<int>(ErrorKind::truncated)) decompressor = Decompressor();
      frame[bit / 8] ^= flip;
    }
  }
}

TEST(Streaming, AnErrorLeavesTheOutputAsItWasAndTheNextFrameIsANewOne) {
  const Owned tensor = TensorMaker(18)(DType::f32, {300}, Content::normal);
  const Bytes frame = compress(tensor.view());
  Bytes bad = frame;
  bad[bad.size() - 20] ^= 1;
  Decompressor decompressor;
  Bytes out{1, 2, 3};
  const Bytes before = out;
  expect_error(ErrorKind::corrupt, [&] { decompressor.feed(bad, out); });
  EXPECT_EQ(out, before);
  EXPECT_FALSE(decompressor.header().has_value());
  const Bytes garbage{'n', 'o'};
  expect_error(ErrorKind::corrupt, [&] { decompressor.feed(garbage, out); });
  EXPECT_EQ(out, before);
  out.clear();
  EXPECT_TRUE(decompressor.feed(frame, out));
  EXPECT_TRUE(out == tensor.data);
}

TEST(Streaming, BytesBehindTheFrameAreRefused) {
  for (const Owned& tensor : {large_tensor(19), Owned{DType::f32, {0}, {}}}) {
    Bytes frame = compress(tensor.view());
    const std::size_t end = frame.size();
    frame.push_back(0);
    Decompressor decompressor;
    for (const std::size_t first : {std::size_t{0}, end / 2, end - 1}) {
      Bytes out;
      EXPECT_FALSE(decompressor.feed(std::span(frame).first(first), out));
      expect_error(ErrorKind::corrupt,
                   [&] { decompressor.feed(std::span(frame).subspan(first), out); });
    }
    Bytes out;
    EXPECT_TRUE(decompressor.feed(std::span(frame).first(end), out));
    expect_error(ErrorKind::corrupt, [&] { decompressor.feed(std::span(frame).last(1), out); });
  }
}

TEST(Streaming, ArchivesAreRefusedAtOnce) {
  const Bytes frame = ArchiveWriter().finish();
  Decompressor decompressor;
  Bytes out;
  expect_error(ErrorKind::invalid_argument,
               [&] { decompressor.feed(std::span(frame).first(10), out); });
}

}  // namespace
}  // namespace gradwire::testing
