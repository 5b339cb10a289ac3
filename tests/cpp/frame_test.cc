#include "frame/sections.h"
#include "frame/tensor_body.h"
#include "frame/tensor_header.h"
#include "tensor_testing.h"

namespace gradwire::frame {
namespace {

using gradwire::testing::Bytes;
using gradwire::testing::error_kind;
using gradwire::testing::expect_error;
using gradwire::testing::Owned;

Bytes written(const TensorHeader& header) {
  Bytes bytes;
  ByteWriter out(bytes);
  write_tensor_header(header, out);
  return bytes;
}

TensorHeader parsed(const Bytes& bytes) {
  ByteReader in(bytes);
  return read_tensor_header(in);
}

TensorHeader scaled_header(DType dtype) {
  TensorHeader header;
  header.dtype = dtype;
  header.dims = {300, 70};
  header.elements = 21000;
  header.pipeline = Pipeline::scaled;
  header.scaled.kept = 5;
  header.scaled.columns = 70;
  return header;
}

TensorHeader kernel_header() {
  TensorHeader header;
  header.dtype = DType::f32;
  header.dims = {10, 10, 3, 3};
  header.elements = 900;
  header.pipeline = Pipeline::kernels;
  header.chunk_elements = 450;
  header.kernels.kept = 23;
  header.kernels.taps = 9;
  return header;
}

constexpr std::size_t kScaledModes =
    2 + 3 + 1 + 3 + 1 + 3;  // dtype ndim dims pipeline chunk K w p V

TEST(Frame, SmallestExample) {
  // An empty f32 vector without checksums: magic, version, flags, body_bytes 5; section 1 of 3
  // bytes: f32, one dimension, 0.
  const Owned empty{DType::f32, {0}, {}};
  const Bytes frame = compress(empty.view(), {.checksum = false});
  EXPECT_EQ(frame, (Bytes{'G', 'R', 'D', 'W', 0, 1, 0, 0, 5, 1, 3, 1, 1, 0}));
  EXPECT_LE(compress(empty.view()).size(), 32u);
}

TEST(Prelude, TellsTheSizeAsSoonAsItCan) {
  const Owned tensor{DType::u8, {500}, Bytes(500)};
  const Bytes frame = compress(tensor.view());
  std::size_t needed = 0;
  for (std::size_t n = 0; n <= frame.size(); ++n) {
    const auto size = frame_size(std::span(frame).first(n));
    if (!size) needed = n + 1;
    EXPECT_EQ(size.value_or(frame.size()), frame.size());
  }
  EXPECT_EQ(needed, 9u);
}

TEST(Prelude, OtherMagicVersionsAndFlagsAreRefusedByKind) {
  const Bytes good = compress(Owned{DType::u8, {3}, {1, 2, 3}}.view());
  const auto kind_with = [&](std::size_t at, std::uint8_t value) {
    Bytes bad = good;
    bad[at] = value;
    return static_cast<ErrorKind>(error_kind([&] { decompress(bad); }));
  };
  EXPECT_EQ(kind_with(0, 'g'), ErrorKind::corrupt);
  EXPECT_EQ(kind_with(4, 1), ErrorKind::unsupported);
  EXPECT_EQ(kind_with(5, 0), ErrorKind::unsupported);
  EXPECT_EQ(kind_with(5, 2), ErrorKind::unsupported);
  EXPECT_EQ(kind_with(6, 5), ErrorKind::unsupported);  // streamed
  EXPECT_EQ(kind_with(6, 9), ErrorKind::corrupt);      // lossy, which the checksum did not see
  EXPECT_EQ(kind_with(6, 17), ErrorKind::corrupt);
  EXPECT_EQ(kind_with(7, 128), ErrorKind::corrupt);
  EXPECT_EQ(kind_with(8, static_cast<std::uint8_t>(good[8] + 1)), ErrorKind::truncated);
  EXPECT_EQ(kind_with(8, static_cast<std::uint8_t>(good[8] - 1)), ErrorKind::corrupt);
}

TEST(Sections, UnknownOptionalOnesAreSkippedAndRequiredOnesRefused) {
  const auto kind_of = [](const Bytes& body) {
    return error_kind([&] { Sections(body, 0, {Section::tensor, Section::trailer}); });
  };
  EXPECT_EQ(kind_of({1, 0, 9, 0}), 0);
  EXPECT_EQ(kind_of({1, 0, 200, 1, 7}), 0);
  EXPECT_EQ(kind_of({1, 0, 255, 0}), 0);
  EXPECT_EQ(kind_of({1, 0, 2, 0}),
            static_cast<int>(ErrorKind::unsupported));  // known, but not here
  EXPECT_EQ(kind_of({1, 0, 127, 0}), static_cast<int>(ErrorKind::unsupported));
  EXPECT_EQ(kind_of({0, 0}), static_cast<int>(ErrorKind::corrupt));
  EXPECT_EQ(kind_of({9, 0, 1, 0}), static_cast<int>(ErrorKind::corrupt));
  EXPECT_EQ(kind_of({1, 0, 1, 0}), static_cast<int>(ErrorKind::corrupt));
  EXPECT_NE(kind_of({1, 2, 0}), 0);
  EXPECT_NE(kind_of({1}), 0);
  EXPECT_NE(kind_of({1, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F}), 0);
}

TEST(Header, EveryPipelineRoundTrips) {
  std::vector<TensorHeader> headers;
  for (const DType dtype : gradwire::testing::all_dtypes()) {
    TensorHeader planes;
    planes.dtype = dtype;
    planes.dims = {7, 0x12345};
    planes.elements = 7 * 0x12345;
    for (std::size_t b = 0; b < planes.element_bytes(); ++b) {
      planes.planes[b] = {static_cast<PlaneMode>(b % 3),
                          static_cast<std::uint8_t>(b % 3 == 0 ? 0 : b)};
    }
    headers.push_back(planes);
  }
  for (const DType dtype : gradwire::testing::kFloats) {
    for (unsigned sign_mode = 0; sign_mode < 3; ++sign_mode) {
      TensorHeader scaled = scaled_header(dtype);
      scaled.scaled.sign_mode = static_cast<SignMode>(sign_mode);
      scaled.scaled.step_log2 = sign_mode;
      scaled.scaled.has_scales = scaled.scaled.halved = sign_mode > 0;
      scaled.scaled.has_zero = true;
      scaled.scaled.origin = 69;
      scaled.scaled.taps = sign_mode == 2 ? 9 : 1;
      scaled.scaled.inner = sign_mode == 2 ? 4 : 1;
      if (dtype == DType::f32) {
        scaled.scaled.counted = true;
        scaled.scaled.joint = sign_mode == 0;
        scaled.scaled.low_count = 2;
      }
      headers.push_back(scaled);
    }
  }
  headers.push_back(kernel_header());
  headers.back().kernels.counted = true;
  headers.back().kernels.low_count = 16;
  for (const TensorHeader& header : headers) {
    const Bytes bytes = written(header);
    const TensorHeader back = parsed(bytes);
    EXPECT_EQ(written(back), bytes);
    EXPECT_EQ(back.elements, header.elements);
    EXPECT_EQ(back.dims, header.dims);
    for (std::size_t n = 0; n < bytes.size(); ++n) {
      EXPECT_NE(error_kind([&] {
                  parsed(Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n)));
                }),
                0);
    }
    Bytes longer = bytes;
    longer.push_back(0);
    expect_error(ErrorKind::corrupt, [&] { parsed(longer); });
  }
}

TEST(Header, FieldsOutOfRangeAreRefused) {
  const auto expect_refused = [](auto change, ErrorKind kind = ErrorKind::corrupt) {
    TensorHeader header = scaled_header(DType::f32);
    header.scaled.counted = true;
    change(header);
    expect_error(kind, [&] { parsed(written(header)); });
  };
  expect_refused(
      [](TensorHeader& h) {
        h.dtype = static_cast<DType>(240);
        h.elements = 1;
      },
      ErrorKind::unsupported);
  expect_refused([](TensorHeader& h) { h.pipeline = Pipeline::low_rank; }, ErrorKind::unsupported);
  expect_refused([](TensorHeader& h) { h.pipeline = Pipeline::reference; }, ErrorKind::unsupported);
  expect_refused([](TensorHeader& h) { h.dtype = DType::i32; });
  expect_refused([](TensorHeader& h) { h.chunk_elements = 0; });
  expect_refused([](TensorHeader& h) { h.chunk_elements = 65537; });
  expect_refused([](TensorHeader& h) { h.streams_log2 = 6; });
  expect_refused([](TensorHeader& h) { h.scaled.kept = 24; });
  expect_refused([](TensorHeader& h) { h.scaled.step_log2 = 3; });
  expect_refused([](TensorHeader& h) {
    h.scaled.kept = 1;
    h.scaled.step_log2 = 2;
  });
  expect_refused([](TensorHeader& h) { h.scaled.window = 0; });
  expect_refused([](TensorHeader& h) { h.scaled.window = 63; });
  expect_refused([](TensorHeader& h) { h.scaled.sign_mode = static_cast<SignMode>(3); });
  expect_refused([](TensorHeader& h) { h.scaled.halved = true; });
  expect_refused([](TensorHeader& h) { h.scaled.low_count = 6; });
  expect_refused([](TensorHeader& h) { h.scaled.kept = 0; });
  expect_refused([](TensorHeader& h) { h.dtype = DType::bf16; });
  expect_refused([](TensorHeader& h) { h.dtype = DType::f64; });
  expect_refused([](TensorHeader& h) {
    h.scaled.counted = false;
    h.scaled.joint = true;
  });
  expect_refused([](TensorHeader& h) {
    h.scaled.joint = true;
    h.scaled.window = 15;
  });
  expect_refused([](TensorHeader& h) { h.scaled.columns = 0; });
  expect_refused([](TensorHeader& h) { h.scaled.columns = (std::uint64_t{1} << 31) + 1; });
  expect_refused([](TensorHeader& h) { h.scaled.origin = 70; });
  expect_refused([](TensorHeader& h) {
    h.scaled.sign_mode = SignMode::tap;
    h.scaled.taps = 0;
  });
  expect_refused([](TensorHeader& h) {
    h.scaled.sign_mode = SignMode::tap;
    h.scaled.inner = 0;
  });
  const auto expect_kernel_refused = [](auto change) {
    TensorHeader header = kernel_header();
    change(header);
    expect_error(ErrorKind::corrupt, [&] { parsed(written(header)); });
  };
  expect_kernel_refused([](TensorHeader& h) { h.kernels.kept = 6; });
  expect_kernel_refused([](TensorHeader& h) { h.kernels.kept = 24; });
  expect_kernel_refused([](TensorHeader& h) { h.kernels.taps = 1; });
  expect_kernel_refused([](TensorHeader& h) { h.kernels.taps = 65; });
  expect_kernel_refused([](TensorHeader& h) { h.kernels.inner = 0; });
  expect_kernel_refused([](TensorHeader& h) { h.kernels.inner = 32769; });
  expect_kernel_refused([](TensorHeader& h) { h.kernels.taps = 7; });
  expect_kernel_refused([](TensorHeader& h) { h.chunk_elements = 451; });
  expect_kernel_refused([](TensorHeader& h) {
    h.kernels.kept = 7;
    h.kernels.counted = true;
  });
  expect_kernel_refused([](TensorHeader& h) {
    h.kernels.counted = true;
    h.kernels.low_count = 17;
  });
  expect_kernel_refused([](TensorHeader& h) {
    h.dtype = DType::f64;
    h.kernels.kept = 52;
  });
}

TEST(Header, ReservedModeBitsAreRefused) {
  Bytes bytes = written(scaled_header(DType::bf16));
  ASSERT_EQ(bytes[kScaledModes], 0);
  bytes[kScaledModes] = 128;
  expect_error(ErrorKind::corrupt, [&] { parsed(bytes); });
}

TEST(Header, SizesThatOverflowAreRefusedBehindAZeroToo) {
  const auto kind_of = [](std::vector<std::uint64_t> dims, DType dtype) {
    TensorHeader header;
    header.dtype = dtype;
    header.dims = std::move(dims);
    header.elements = 0;  // nothing behind the dims
    return error_kind([&] {
      const TensorHeader back = parsed(written(header));
      if (back.elements != 0) throw Error(ErrorKind::io, "not empty");
    });
  };
  constexpr std::uint64_t kBig = std::uint64_t{1} << 62;
  constexpr int kCorrupt = static_cast<int>(ErrorKind::corrupt);
  EXPECT_EQ(kind_of({0}, DType::f32), 0);
  EXPECT_EQ(kind_of({kBig, 0}, DType::u8), 0);
  EXPECT_EQ(kind_of({kBig + 1, 0}, DType::u8), kCorrupt);
  EXPECT_EQ(kind_of({0, kBig / 2, 3}, DType::u8), kCorrupt);
  EXPECT_EQ(kind_of({kBig / 2, 0}, DType::f32), kCorrupt);
  EXPECT_EQ(kind_of({kBig / 4, 0}, DType::f32), 0);
  EXPECT_EQ(kind_of({std::uint64_t{1} << 32, std::uint64_t{1} << 32, 0}, DType::u8), kCorrupt);
  EXPECT_EQ(kind_of(std::vector<std::uint64_t>(32, 0), DType::u8), 0);
  EXPECT_EQ(kind_of(std::vector<std::uint64_t>(33, 0), DType::u8), kCorrupt);
}

TEST(Trailer, HasItsExactSize) {
  EXPECT_EQ(trailer_bytes(0, true, false), 8u);
  EXPECT_EQ(trailer_bytes(0, false, false), 0u);
  EXPECT_EQ(trailer_bytes(1, true, false), 16u);
  EXPECT_EQ(trailer_bytes(3, true, false), 24u);
  EXPECT_EQ(trailer_bytes(3, false, false), 16u);
  EXPECT_EQ(trailer_bytes(1, true, true), 8u);
  EXPECT_EQ(trailer_bytes(3, false, true), 0u);
}

TEST(Trailer, IsRefusedWhereItMustBeAbsentEvenIfItIsEmpty) {
  const Bytes frame{'G', 'R', 'D', 'W', 0, 1, 0, 0, 7, 1, 3, 1, 1, 0, 9, 0};
  expect_error(ErrorKind::corrupt, [&] { decompress(frame); });
}

}  // namespace
}  // namespace gradwire::frame
