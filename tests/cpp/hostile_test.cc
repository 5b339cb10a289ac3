// Sound frames that were cut, flipped or spliced must be refused with an Error, and read nothing
// past their end (AddressSanitizer sees to that).

#include "base/bytes.h"
#include "hostile_testing.h"

namespace gradwire::testing {
namespace {

/// Under AddressSanitizer, which is slow, every fifth bit stands for all.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kBitStep = 5;
#else
constexpr std::size_t kBitStep = 1;
#endif

TEST(Hostile, TheSmallFramesAreSoundAndUseEveryPart) {
  std::string seen;
  for (const NamedFrame& frame : small_frames()) {
    EXPECT_TRUE(decode(frame.frame, true) == frame.data) << frame.name;
    if (is_archive(frame.frame)) continue;
    const TensorInfo info = tensor_info(frame.frame);
    seen += formatted("|{} {} {} {} {} {} {} constant{} stored{} {}\n", frame.name, info.pipeline,
                      info.prediction, info.signs, info.zeros, info.fractions, info.tables,
                      info.constant_chunks, info.stored_chunks, frame.frame.size());
  }
  for (const char* part : {" planes ", " scaled ", " kernels ", "rows+columns", "taps(a=", " raw ",
                           " tap ", " guess ", "in-band", " map ", "rows", "counted", "ans dynamic",
                           "huffman dynamic", "pairs", "gennorm", "constant1", "stored1"}) {
    EXPECT_NE(seen.find(part), std::string::npos) << part << " is not used by:\n" << seen;
  }
}

TEST(Hostile, EveryPrefixIsTruncated) {
  for (const NamedFrame& named : small_frames()) {
    for (std::size_t n = 0; n < named.frame.size(); ++n) {
      const Bytes cut(named.frame.begin(), named.frame.begin() + static_cast<std::ptrdiff_t>(n));
      const int kind = error_kind([&] { decompress(cut); });
      ASSERT_EQ(kind, static_cast<int>(ErrorKind::truncated))
          << named.name << ", " << n << " bytes";
      ASSERT_EQ(error_kind([&] { ArchiveReader reader(cut); }), kind);
      ASSERT_EQ(error_kind([&] { tensor_info(cut); }), kind);
    }
  }
}

TEST(Hostile, EveryPrefixWithItsLengthPutRightIsRefused) {
  for (const NamedFrame& named : small_frames()) {
    const std::size_t prelude = named.frame.size() - 9 < 128 ? 9 : 10;
    for (std::size_t n = prelude; n < named.frame.size(); ++n) {
      Bytes cut;
      gradwire::ByteWriter out(cut);
      out.bytes(std::span(named.frame).first(8));
      out.varint(n - prelude);
      out.bytes(std::span(named.frame).subspan(prelude, n - prelude));
      const Bytes input = exact(cut);
      for (const bool verify : {true, false}) {
        ASSERT_NE(error_kind([&] { decode(input, verify); }), 0)
            << named.name << ", " << n << " bytes";
      }
    }
  }
}

TEST(Hostile, EveryFlippedBitIsNoticed) {
  for (const NamedFrame& named : small_frames()) {
    Bytes frame = named.frame;
    for (std::size_t bit = 0; bit < 8 * frame.size(); bit += kBitStep) {
      const auto flip = static_cast<std::uint8_t>(1u << (bit & 7));
      frame[bit / 8] ^= flip;
      ASSERT_NE(error_kind([&] { decode(frame, true); }), 0)
          << named.name << ", bit " << bit % 8 << " of byte " << bit / 8;
      frame[bit / 8] ^= flip;
    }
  }
}

TEST(Hostile, EveryFlippedBitIsSafeWithoutChecksums) {
  for (const NamedFrame& named : small_frames()) {
    Bytes frame = named.frame;
    for (std::size_t bit = 0; bit < 8 * frame.size(); bit += 3 * kBitStep) {
      const auto flip = static_cast<std::uint8_t>(1u << (bit & 7));
      frame[bit / 8] ^= flip;
      exercise(frame, false);
      frame[bit / 8] ^= flip;
    }
  }
}

TEST(Hostile, ChunksAndHeadersCannotBeMovedBetweenTensors) {
  TensorMaker make(2);
  const Owned a = make(DType::u8, {70000}, Content::random_bits);
  Bytes frame = compress(a.view());
  // Stored chunks of the same length stand at the end, before the trailer of 2 x 8 bytes and its
  // head.
  Bytes swapped = frame;
  const std::size_t chunks = frame.size() - 18 - 70000;
  std::swap_ranges(swapped.begin() + static_cast<std::ptrdiff_t>(chunks),
                   swapped.begin() + static_cast<std::ptrdiff_t>(chunks + 4464),
                   swapped.begin() + static_cast<std::ptrdiff_t>(chunks + 65536));
  expect_error(ErrorKind::corrupt, [&] { decompress(swapped); });
}

}  // namespace
}  // namespace gradwire::testing
