// A small frame that claims much is refused before memory is asked for.

#include "base/bytes.h"
#include "frame/tensor_body.h"
#include "largest_request_testing.h"
#include "tensor_testing.h"

namespace gradwire::testing {
namespace {

/// A frame of any header and sections, without checksums.
Bytes made_frame(const frame::TensorHeader& header,
                 const std::vector<std::pair<frame::Section, Bytes>>& sections) {
  Bytes body, tensor, frame;
  ByteWriter tensor_out(tensor), body_out(body), out(frame);
  frame::write_tensor_header(header, tensor_out);
  frame::write_section(frame::Section::tensor, tensor, body_out);
  for (const auto& [id, payload] : sections) frame::write_section(id, payload, body_out);
  frame::write_section(frame::Section::trailer, Bytes(16), body_out);
  frame::write_prelude(0, body.size(), out);
  out.bytes(body);
  return exact(frame);
}

/// A vector of the scaled pipeline.
frame::TensorHeader vector_header(DType dtype, std::uint64_t elements) {
  frame::TensorHeader header;
  header.dtype = dtype;
  header.dims = {elements};
  header.elements = elements;
  header.pipeline = frame::Pipeline::scaled;
  return header;
}

/// Index entries of constant chunks of zeros: two bytes for each 65536 elements.
Bytes constant_index(std::uint64_t chunks) {
  Bytes index;
  for (std::uint64_t c = 0; c < chunks; ++c) {
    index.push_back(2);
    index.push_back(0);
  }
  return index;
}

/// All of a vector in constant chunks.
Bytes constant_frame(const frame::TensorHeader& header) {
  const Bytes index = constant_index(header.elements >> 16);
  return made_frame(header, {{frame::Section::index, index}, {frame::Section::chunks, {}}});
}

TEST(Budget, IsCheckedBeforeMemoryIsAskedFor) {
  const frame::TensorHeader header = vector_header(DType::f32, std::uint64_t{1} << 40);
  const Bytes frame =
      made_frame(header, {{frame::Section::index, {}}, {frame::Section::chunks, {}}});
  ASSERT_LT(frame.size(), 64u);
  largest_request = 0;
  expect_error(ErrorKind::limit, [&] { decompress(frame); });
  EXPECT_LT(largest_request.load(), 10000u);
  // What reads the header only has no output to refuse, but must not believe the count of chunks
  // either.
  largest_request = 0;
  expect_error(ErrorKind::corrupt, [&] { tensor_info(frame); });
  expect_error(ErrorKind::corrupt, [&] { decompress_range(frame, 0, 1); });
  EXPECT_LT(largest_request.load(), 10000u);
}

TEST(Budget, ConstantChunksCannotMakeMoreThanIsAllowed) {
  const frame::TensorHeader header = vector_header(DType::f64, std::uint64_t{1} << 30);
  const Bytes frame = constant_frame(header);
  largest_request = 0;
  expect_error(ErrorKind::limit, [&] { decompress(frame); });
  expect_error(ErrorKind::limit, [&] { decompress_range(frame, 0, header.elements); });
  EXPECT_EQ(decompress_range(frame, (1 << 30) - 5, 1 << 30, {.max_output = 40}), Bytes(40));
  EXPECT_EQ(tensor_info(frame).elements, header.elements);
  EXPECT_LT(largest_request.load(), std::size_t{4} << 20);
}

TEST(Budget, OfAStreamIsThatOfTheBytesThatCame) {
  const frame::TensorHeader header = vector_header(DType::f64, std::uint64_t{1} << 30);
  const Bytes sound = constant_frame(header);
  // The same sections in a frame that claims to be long enough for them.
  Bytes frame;
  ByteWriter out(frame);
  frame::write_prelude(0, std::uint64_t{1} << 62, out);
  const frame::Prelude prelude = frame::read_prelude(sound);
  out.bytes(std::span(sound).subspan(prelude.header_bytes));
  largest_request = 0;
  Decompressor decompressor;
  Bytes restored;
  expect_error(ErrorKind::limit, [&] { decompressor.feed(sound, restored); });
  expect_error(ErrorKind::limit, [&] { decompressor.feed(frame, restored); });
  Decompressor generous({.max_output = header.bytes()});
  expect_error(ErrorKind::truncated, [&] {
    generous.feed(std::span(frame).first(20000), restored);
    generous.finish();
  });
  EXPECT_LT(largest_request.load(), std::size_t{4} << 20);
}

TEST(Budget, CoversTheLinesOfAView) {
  // 2^32 elements in constant chunks, a view of 2^30 rows: `dead` says in three bytes that none is
  // dead.
  frame::TensorHeader header = vector_header(DType::bf16, std::uint64_t{1} << 32);
  header.scaled.columns = 4;
  const Bytes frame = made_frame(header, {{frame::Section::dead, {1, 2, 0}},
                                          {frame::Section::index, constant_index(1 << 16)},
                                          {frame::Section::chunks, {}}});
  largest_request = 0;
  expect_error(ErrorKind::limit, [&] { decompress_range(frame, 0, 1, {.max_output = 1 << 20}); });
  expect_error(ErrorKind::limit, [&] { tensor_info(frame); });
  EXPECT_LT(largest_request.load(), std::size_t{4} << 20);
}

}  // namespace
}  // namespace gradwire::testing
