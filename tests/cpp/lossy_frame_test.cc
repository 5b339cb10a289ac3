// Lossy frames and archives: whole, in part, in pieces, and damaged.

#include "base/bytes.h"
#include "frame/sections.h"
#include "gradwire/lossy.h"
#include "largest_request_testing.h"
#include "lossy/codec/body.h"
#include "tensor_testing.h"

namespace gradwire::testing {
namespace {

constexpr std::size_t kFlagsAt = 6;  // in a frame
constexpr std::uint8_t kLossyFlag = 8;

// --- hostile bytes -------------------------------------------------------------------

Bytes small_frame(const std::string& spec, bool checksum = true) {
  TensorMaker make(75);
  return compress_lossy(make(DType::f32, {8, 9}, Content::normal).view(), spec, {}, nullptr,
                        checksum);
}

TEST(LossyFrame, EveryFlippedBitIsRefused) {
  for (const char* spec : {"topk(keep=0.2)", "randomk(keep=0.2)", "qsgd(bucket=16)", "cast"}) {
    const Bytes frame = small_frame(spec);
    for (std::size_t bit = 0; bit < 8 * frame.size(); ++bit) {
      Bytes damaged = exact(frame);
      damaged[bit / 8] = static_cast<std::uint8_t>(damaged[bit / 8] ^ 1u << bit % 8);
      EXPECT_THROW(decompress(damaged), Error) << spec << ", bit " << bit;
      Bytes out;
      bool is_refused = false;
      try {
        Decompressor stream;
        is_refused = !stream.feed(damaged, out);
      } catch (const Error&) {
        is_refused = true;
      }
      EXPECT_TRUE(is_refused) << spec << ", bit " << bit;
    }
  }
}

TEST(LossyFrame, WithoutChecksumsDamageIsHarmless) {
  for (const char* spec : {"topk(keep=0.2)", "randomk(keep=0.2)", "qsgd(bucket=16)", "cast"}) {
    const Bytes frame = small_frame(spec, false);
    EXPECT_FALSE(tensor_info(frame).checksums);
    decompress(frame);
    for (std::size_t bit = 0; bit < 8 * frame.size(); ++bit) {
      Bytes damaged = exact(frame);
      damaged[bit / 8] = static_cast<std::uint8_t>(damaged[bit / 8] ^ 1u << bit % 8);
      try {
        const Tensor tensor = decompress(damaged, {.max_output = 1 << 20});
        EXPECT_LE(tensor.data.size(), 1u << 20);
        decompress_range(damaged, 0, 1, {.max_output = 1 << 20});
        tensor_info(damaged);
      } catch (const Error&) {
      }
    }
  }
}

TEST(LossyFrame, EveryBeginningIsTruncated) {
  const Bytes frame = small_frame("topk(keep=0.2)");
  for (std::size_t n = 0; n < frame.size(); ++n) {
    const Bytes start = exact(std::span(frame).first(n));
    expect_error(ErrorKind::truncated, [&] { decompress(start); });
    Decompressor stream;
    Bytes out;
    EXPECT_FALSE(stream.feed(start, out));
    EXPECT_TRUE(out.empty());
  }
}

TEST(LossyFrame, WithoutTheFlagALossyBodyIsRefused) {
  Bytes frame = small_frame("topk(keep=0.2)", false);
  ASSERT_EQ(frame[kFlagsAt], kLossyFlag);
  frame[kFlagsAt] = 0;
  // Its sections are none of an exact body.
  expect_error(ErrorKind::unsupported, [&] { decompress(frame); });
  expect_error(ErrorKind::unsupported, [&] { tensor_info(frame); });
  expect_error(ErrorKind::unsupported, [&] { decompress_range(frame, 0, 1); });
  expect_error(ErrorKind::corrupt, [&] { tensor_header(frame); });
  Bytes out;
  expect_error(ErrorKind::unsupported, [&] { Decompressor().feed(frame, out); });
}

TEST(LossyFrame, WithTheFlagAnExactBodyIsRead) {
  TensorMaker make(76);
  const Owned tensor = make(DType::f32, {300, 300}, Content::normal);
  Bytes frame = compress(tensor.view(), {.checksum = false});
  frame[kFlagsAt] = kLossyFlag;
  EXPECT_TRUE(decompress(frame).data == tensor.data);
  Bytes out;
  EXPECT_TRUE(Decompressor().feed(frame, out));
  EXPECT_TRUE(out == tensor.data);
}

TEST(LossyFrame, TheOutputBudgetIsThatOfExactFrames) {
  TensorMaker make(77);
  const Owned zeros = make(DType::f32, {1000, 1000}, Content::zeros);
  const Bytes frame = compress_lossy(zeros.view(), "threshold(bound=1)");
  EXPECT_LT(frame.size(), 100u);
  EXPECT_TRUE(decompress(frame, {.max_output = 4000000}).data == zeros.data);
  const DecompressOptions less{.max_output = 3999999};
  expect_error(ErrorKind::limit, [&] { decompress(frame, less); });
  expect_error(ErrorKind::limit, [&] { decompress_range(frame, 0, 1, less); });
  Bytes out;
  expect_error(ErrorKind::limit, [&] { Decompressor(less).feed(frame, out); });
  EXPECT_TRUE(out.empty());
  ArchiveWriter writer;
  writer.add_lossy("w", zeros.view(), "threshold(bound=1)");
  const Bytes archive = writer.finish();
  const ArchiveReader reader(archive, less);
  EXPECT_EQ(reader.info(0).elements, 1000000u);
  expect_error(ErrorKind::limit, [&] { reader.tensor(0); });
  expect_error(ErrorKind::limit, [&] { reader.range(0, 0, 1); });
}

TEST(LossyFrame, AClaimOfMuchIsRefusedBeforeMemoryIsAskedFor) {
  const std::uint64_t n = std::uint64_t{1} << 30;
  const lossy::Outline outline{.dims = {&n, 1}, .selection = lossy::Selection::gaps};
  lossy::BodyMemory memory;
  Bytes body, frame;
  lossy::write_body(outline, {}, lossy::BodyEnd::bare, 0, memory, body);
  ByteWriter out(frame);
  frame::write_prelude(frame::kLossy, body.size(), out);
  out.bytes(body);
  ASSERT_LT(frame.size(), 64u);
  largest_request = 0;
  expect_error(ErrorKind::limit, [&] { decompress(frame); });
  expect_error(ErrorKind::limit, [&] { decompress_range(frame, 0, 1); });
  EXPECT_EQ(tensor_info(frame).elements, n);
  EXPECT_LT(largest_request.load(), 10000u);
}

// --- in pieces, in part, in archives ---------------------------------------------------

TEST(LossyFrame, ComesInPieces) {
  TensorMaker make(78);
  const Owned tensor = make(DType::bf16, {64, 33}, Content::normal);
  const Bytes frame = compress_lossy(tensor.view(), "topk(keep=0.1)");
  const Bytes whole = decompress(frame).data;
  Decompressor stream;
  for (const std::size_t piece : {1u, 7u, 1000u, 100000u}) {
    Bytes out;
    bool done = false;
    for (std::size_t at = 0; at < frame.size(); at += piece) {
      EXPECT_FALSE(done);
      done = stream.feed(std::span(frame).subspan(at, std::min(piece, frame.size() - at)), out);
    }
    EXPECT_TRUE(done);
    EXPECT_TRUE(out == whole);
    EXPECT_EQ(stream.header()->shape, tensor.shape);
  }
}

TEST(LossyFrame, ARangeIsAPartOfTheWhole) {
  TensorMaker make(79);
  for (const char* spec : {"topk(keep=0.1)", "randomk(keep=0.6)", "qsgd"}) {
    const Bytes frame = compress_lossy(make(DType::f16, {64, 33}, Content::normal).view(), spec);
    const Bytes whole = decompress(frame).data;
    for (const auto& [first, last] : {std::pair{0u, 0u}, {5u, 6u}, {100u, 2112u}, {2112u, 2112u}})
      EXPECT_TRUE(decompress_range(frame, first, last) ==
                  Bytes(whole.begin() + 2 * first, whole.begin() + 2 * last));
    expect_error(ErrorKind::invalid_argument, [&] { decompress_range(frame, 0, 2113); });
    expect_error(ErrorKind::invalid_argument, [&] { decompress_range(frame, 2, 1); });
  }
}

TEST(LossyFrame, InfoSaysWhatIsSentAndHow) {
  TensorMaker make(80);
  const Owned tensor = make(DType::f32, {100, 100}, Content::normal);
  const auto info = [&](const char* spec) {
    return tensor_info(compress_lossy(tensor.view(), spec));
  };
  const TensorInfo sparse = info("topk(keep=0.01,values=f16)");
  EXPECT_EQ(sparse.zeros, "gaps, 1 % kept");
  EXPECT_EQ(sparse.fractions, "f16");
  EXPECT_EQ(sparse.original_bytes, 40000u);
  EXPECT_TRUE(sparse.checksums);
  EXPECT_EQ(info("randomk(keep=0.25)").zeros, "drawn, 25 % kept");
  EXPECT_EQ(info("topk(keep=0.9)").zeros, "flags, 90 % kept");
  EXPECT_EQ(info("qsgd").fractions, "levels 7, buckets of 512");
  EXPECT_EQ(info("qsgd").zeros, "none");
  EXPECT_EQ(info("efsign").fractions, "levels 1, one scale");
  EXPECT_EQ(info("cast(values=e4m3)").fractions, "f8_e4m3, buckets of 512");
  EXPECT_EQ(info("threshold(bound=1000)").fractions, "none");
}

struct Named {
  std::string name;
  Owned tensor;
  bool is_lossy;
};

std::vector<Named> mixed_tensors() {
  TensorMaker make(81);
  return {{"w", make(DType::f32, {16, 9}, Content::normal), true},
          {"half", make(DType::bf16, {16, 9}, Content::normal), true},
          {"ids", make(DType::i32, {5, 3}, Content::normal), false},
          {"wide", make(DType::f64, {4, 4}, Content::specials), false},
          {"none", make(DType::f32, {0, 7}, Content::normal), false},
          {"bias", make(DType::f16, {9}, Content::normal), false}};
}

TEST(LossyArchive, HoldsLossyAndExactTensors) {
  const std::string spec = "randomk(keep=0.3)";
  for (const bool checksum : {true, false}) {
    ArchiveWriter writer(CompressOptions{.checksum = checksum});
    const std::vector<Named> tensors = mixed_tensors();
    for (const Named& one : tensors) {
      LossyReport report;
      writer.add_lossy(one.name, one.tensor.view(), spec, &report);
      EXPECT_EQ(report.elements, element_count(one.tensor.shape)) << one.name;
      EXPECT_EQ(report.largest_error > 0, one.is_lossy) << one.name;
    }
    const Bytes archive = exact(writer.finish());
    EXPECT_EQ(archive[kFlagsAt], checksum ? 11 : 10);
    const ArchiveReader reader(archive);
    ASSERT_EQ(reader.size(), tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Owned& tensor = tensors[i].tensor;
      const Bytes wanted =
          tensors[i].is_lossy
              ? decompress(compress_lossy(tensor.view(), spec, tensors[i].name)).data
              : tensor.data;
      const Tensor found = reader.tensor(i);
      EXPECT_TRUE(found.data == wanted) << tensors[i].name;
      EXPECT_EQ(found.shape, tensor.shape);
      EXPECT_EQ(reader.info(i).pipeline == "lossy", tensors[i].is_lossy);
      EXPECT_EQ(reader.info(i).checksums, checksum);
      Bytes into(wanted.size());
      reader.tensor_into(i, into);
      EXPECT_TRUE(into == wanted);
      if (wanted.size() < 24) continue;
      EXPECT_TRUE(reader.range(i, 1, 3) ==
                  Bytes(wanted.begin() + static_cast<long>(element_size(tensor.dtype)),
                        wanted.begin() + 3 * static_cast<long>(element_size(tensor.dtype))));
    }
  }
}

TEST(LossyArchive, HasNoFlagWithoutALossyBody) {
  TensorMaker make(82);
  const Owned vector = make(DType::f32, {50}, Content::normal);
  ArchiveWriter lossy, plain;
  lossy.add_lossy("v", vector.view(), "topk");
  plain.add("v", vector.view());
  EXPECT_TRUE(lossy.finish() == plain.finish());
  lossy.add_lossy("m", make(DType::f32, {5, 5}, Content::normal).view(), "topk");
  lossy.finish();
  lossy.add("v", vector.view());  // the flag does not stay for the next archive
  plain.add("v", vector.view());
  EXPECT_TRUE(lossy.finish() == plain.finish());
}

TEST(LossyArchive, EveryFlippedBitIsRefused) {
  ArchiveWriter writer;
  TensorMaker make(83);
  writer.add_lossy("w", make(DType::f32, {6, 5}, Content::normal).view(), "topk(keep=0.2)");
  writer.add_lossy("ids", make(DType::i16, {7}, Content::normal).view(), "topk(keep=0.2)");
  const Bytes archive = writer.finish();
  for (std::size_t bit = 0; bit < 8 * archive.size(); ++bit) {
    Bytes damaged = exact(archive);
    damaged[bit / 8] = static_cast<std::uint8_t>(damaged[bit / 8] ^ 1u << bit % 8);
    const auto read_all = [&] {
      const ArchiveReader reader(damaged);
      for (std::size_t i = 0; i < reader.size(); ++i) reader.tensor(i);
    };
    EXPECT_THROW(read_all(), Error) << "bit " << bit;
  }
}

TEST(LossyArchive, GoesOnAfterATensorThatIsRefused) {
  TensorMaker make(84);
  Owned tensor = make(DType::f32, {8, 8}, Content::normal);
  const Owned sound = tensor;
  store(tensor.data.data(), std::numeric_limits<float>::infinity());
  ArchiveWriter writer, other;
  expect_error(ErrorKind::invalid_argument, [&] { writer.add_lossy("w", tensor.view(), "topk"); });
  writer.add_lossy("w", sound.view(), "topk");
  other.add_lossy("w", sound.view(), "topk");
  EXPECT_TRUE(writer.finish() == other.finish());
  writer.add("w", sound.view());
  expect_error(ErrorKind::invalid_argument, [&] { writer.add_lossy("w", sound.view(), "topk"); });
}

}  // namespace
}  // namespace gradwire::testing
