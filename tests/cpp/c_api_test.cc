// The C interface: what a C program sees, and that nothing it passes can bring the library down.
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gradwire/compress.h"
#include "gradwire/frame.h"
#include "gradwire/gradwire.h"

namespace {

using testing::HasSubstr;
using Bytes = std::vector<std::uint8_t>;

struct Free {
  void operator()(gradwire_compressor* context) const { gradwire_compressor_free(context); }
  void operator()(gradwire_decompressor* context) const { gradwire_decompressor_free(context); }
};
using Compressor = std::unique_ptr<gradwire_compressor, Free>;
using Decompressor = std::unique_ptr<gradwire_decompressor, Free>;

Compressor new_compressor(const char* options = "") {
  gradwire_compressor* context = nullptr;
  EXPECT_EQ(gradwire_compressor_new(options, &context), GRADWIRE_OK) << gradwire_last_error();
  return Compressor(context);
}

Decompressor new_decompressor() {
  gradwire_decompressor* context = nullptr;
  EXPECT_EQ(gradwire_decompressor_new(&context), GRADWIRE_OK) << gradwire_last_error();
  return Decompressor(context);
}

/// 1.0, 1 + epsilon, ...: floats with a common exponent.
Bytes some_floats(std::size_t n) {
  std::vector<std::uint32_t> bits(n);
  std::iota(bits.begin(), bits.end(), 0x3F800000U);
  Bytes bytes(n * sizeof(std::uint32_t));
  if (n != 0) std::memcpy(bytes.data(), bits.data(), bytes.size());
  return bytes;
}

Bytes compress(gradwire_compressor* context, gradwire_dtype dtype,
               const std::vector<std::uint64_t>& dims, const Bytes& data) {
  std::uint64_t elements = 1;
  for (const std::uint64_t dim : dims) elements *= dim;
  std::size_t capacity = 0;
  EXPECT_EQ(gradwire_compress_bound(dtype, elements, &capacity), GRADWIRE_OK);
  Bytes frame(capacity);
  std::size_t written = 0;
  EXPECT_EQ(gradwire_compress(context, dtype, dims.data(), dims.size(), data.data(), frame.data(),
                              frame.size(), &written),
            GRADWIRE_OK)
      << gradwire_last_error();
  frame.resize(written);
  return frame;
}

Bytes float_frame(std::size_t n) {
  return compress(new_compressor().get(), GRADWIRE_F32, {n}, some_floats(n));
}

TEST(CApi, RestoresEveryByteOfATensor) {
  const Bytes data = some_floats(1000);
  const Compressor compressor = new_compressor("level=3,coder=huffman,threads=2");
  const Bytes frame = compress(compressor.get(), GRADWIRE_F32, {10, 100}, data);
  EXPECT_LT(frame.size(), data.size());

  gradwire_dtype dtype = GRADWIRE_U8;
  std::array<std::uint64_t, 4> dims{};
  std::size_t ndim = dims.size();
  std::uint64_t bytes = 0;
  ASSERT_EQ(gradwire_frame_info(frame.data(), frame.size(), &dtype, dims.data(), &ndim, &bytes),
            GRADWIRE_OK);
  EXPECT_EQ(dtype, GRADWIRE_F32);
  EXPECT_EQ(ndim, 2U);
  EXPECT_EQ(dims[0], 10U);
  EXPECT_EQ(dims[1], 100U);
  EXPECT_EQ(bytes, data.size());

  Bytes restored(data.size() + 7);  // more room than needed is fine
  std::size_t written = 0;
  const Decompressor decompressor = new_decompressor();
  ASSERT_EQ(gradwire_decompress(decompressor.get(), frame.data(), frame.size(), restored.data(),
                                restored.size(), &written),
            GRADWIRE_OK)
      << gradwire_last_error();
  restored.resize(written);
  EXPECT_EQ(restored, data);
}

TEST(CApi, WritesTheSameFrameAsTheCxxInterface) {
  const Bytes data = some_floats(5000);
  const std::vector<std::uint64_t> shape{50, 100};
  const gradwire::TensorView view{gradwire::DType::f32, shape, data};
  EXPECT_EQ(compress(new_compressor("level=1,checksum=false").get(), GRADWIRE_F32, shape, data),
            gradwire::compress(view, {.level = 1, .checksum = false}));
}

TEST(CApi, ReusesAContextForTensorsOfAnySize) {
  const Compressor compressor = new_compressor();
  const Decompressor decompressor = new_decompressor();
  for (const std::size_t n : {1000U, 3U, 0U, 70000U, 1U}) {
    const Bytes data = some_floats(n);
    const Bytes frame = compress(compressor.get(), GRADWIRE_F32, {n}, data);
    Bytes restored(data.size());
    std::size_t written = 1;
    ASSERT_EQ(gradwire_decompress(decompressor.get(), frame.data(), frame.size(), restored.data(),
                                  restored.size(), &written),
              GRADWIRE_OK)
        << n << ": " << gradwire_last_error();
    EXPECT_EQ(written, data.size());
    EXPECT_EQ(restored, data);
  }
}

TEST(CApi, TakesAScalarWithoutDims) {
  const Bytes data = some_floats(1);
  const Bytes frame = compress(new_compressor().get(), GRADWIRE_F32, {}, data);
  std::size_t ndim = 0;
  ASSERT_EQ(gradwire_frame_info(frame.data(), frame.size(), nullptr, nullptr, &ndim, nullptr),
            GRADWIRE_OK);
  EXPECT_EQ(ndim, 0U);
}

TEST(CApi, TellsTheNumberOfDimsToWhoHasNoRoom) {
  const Bytes frame = compress(new_compressor().get(), GRADWIRE_U8, {2, 3, 4}, Bytes(24, 5));
  std::size_t ndim = 0;
  EXPECT_EQ(gradwire_frame_info(frame.data(), frame.size(), nullptr, nullptr, &ndim, nullptr),
            GRADWIRE_OK);
  EXPECT_EQ(ndim, 3U);

  std::array<std::uint64_t, 2> dims{};
  ndim = dims.size();
  EXPECT_EQ(gradwire_frame_info(frame.data(), frame.size(), nullptr, dims.data(), &ndim, nullptr),
            GRADWIRE_INVALID_ARGUMENT);
  EXPECT_EQ(ndim, 3U);
  EXPECT_THAT(gradwire_last_error(), HasSubstr("room for 2 sizes, the tensor has 3"));
}

TEST(CApi, RefusesTooSmallADestinationAndWritesNothing) {
  const Bytes data = some_floats(100);
  const std::uint64_t dim = 100;
  Bytes small(10, 0xEE);
  std::size_t written = 1;
  EXPECT_EQ(gradwire_compress(new_compressor().get(), GRADWIRE_F32, &dim, 1, data.data(),
                              small.data(), small.size(), &written),
            GRADWIRE_INVALID_ARGUMENT);
  EXPECT_THAT(gradwire_last_error(), HasSubstr("dst has room for 10"));
  EXPECT_EQ(written, 0U);

  const Bytes frame = float_frame(100);
  EXPECT_EQ(gradwire_decompress(new_decompressor().get(), frame.data(), frame.size(), small.data(),
                                small.size(), &written),
            GRADWIRE_INVALID_ARGUMENT);
  EXPECT_THAT(gradwire_last_error(), HasSubstr("the tensor takes 400 bytes"));
  EXPECT_EQ(small, Bytes(10, 0xEE));
}

TEST(CApi, RefusesNullPointers) {
  const Compressor compressor = new_compressor();
  const Decompressor decompressor = new_decompressor();
  const Bytes data = some_floats(4);
  const Bytes frame = float_frame(4);
  const std::uint64_t dim = 4;
  std::array<std::uint8_t, 512> room{};
  std::size_t written = 0;
  const auto run_compress = [&](gradwire_compressor* context, const std::uint64_t* dims,
                                const void* source, void* dst, std::size_t* count) {
    return gradwire_compress(context, GRADWIRE_F32, dims, 1, source, dst, room.size(), count);
  };
  EXPECT_EQ(run_compress(compressor.get(), &dim, data.data(), room.data(), &written), GRADWIRE_OK);
  EXPECT_EQ(run_compress(nullptr, &dim, data.data(), room.data(), &written),
            GRADWIRE_INVALID_ARGUMENT);
  EXPECT_EQ(run_compress(compressor.get(), nullptr, data.data(), room.data(), &written),
            GRADWIRE_INVALID_ARGUMENT);
  EXPECT_EQ(run_compress(compressor.get(), &dim, nullptr, room.data(), &written),
            GRADWIRE_INVALID_ARGUMENT);
  EXPECT_THAT(gradwire_last_error(), HasSubstr("data is NULL"));
  EXPECT_EQ(run_compress(compressor.get(), &dim, data.data(), nullptr, &written),
            GRADWIRE_INVALID_ARGUMENT);
  EXPECT_EQ(run_compress(compressor.get(), &dim, data.data(), room.data(), nullptr),
            GRADWIRE_INVALID_ARGUMENT);

  EXPECT_EQ(
      gradwire_decompress(nullptr, frame.data(), frame.size(), room.data(), room.size(), &written),
      GRADWIRE_INVALID_ARGUMENT);
  EXPECT_EQ(gradwire_decompress(decompressor.get(), nullptr, frame.size(), room.data(), room.size(),
                                &written),
            GRADWIRE_INVALID_ARGUMENT);
  EXPECT_EQ(gradwire_compressor_new(nullptr, nullptr), GRADWIRE_INVALID_ARGUMENT);
  EXPECT_EQ(gradwire_decompressor_new(nullptr), GRADWIRE_INVALID_ARGUMENT);
  EXPECT_EQ(gradwire_compress_bound(GRADWIRE_F32, 1, nullptr), GRADWIRE_INVALID_ARGUMENT);
  gradwire_compressor_free(nullptr);
  gradwire_decompressor_free(nullptr);
}

TEST(CApi, RefusesUnknownDtypesAndSizesThatOverflow) {
  const int unknown = 99;  // what a C caller can pass, a C++ enum cannot hold
  gradwire_dtype dtype{};
  std::memcpy(&dtype, &unknown, sizeof dtype);
  std::size_t bound = 0;
  EXPECT_EQ(gradwire_compress_bound(dtype, 1, &bound), GRADWIRE_INVALID_ARGUMENT);
  EXPECT_THAT(gradwire_last_error(), HasSubstr("dtype is 99, must be 1 to 15"));

  const std::array<std::uint64_t, 2> dims{std::uint64_t{1} << 62, 4};
  const std::uint8_t byte = 0;
  std::uint8_t out = 0;
  std::size_t written = 0;
  EXPECT_EQ(gradwire_compress(new_compressor().get(), GRADWIRE_F32, dims.data(), 2, &byte, &out, 1,
                              &written),
            GRADWIRE_INVALID_ARGUMENT);
  EXPECT_THAT(gradwire_last_error(), HasSubstr("2^64 bytes"));
}

struct BadOptions {
  const char* text;
  const char* message;
};

class CApiOptions : public testing::TestWithParam<BadOptions> {};

TEST_P(CApiOptions, AreRefusedWithASentence) {
  gradwire_compressor* context = nullptr;
  EXPECT_EQ(gradwire_compressor_new(GetParam().text, &context), GRADWIRE_INVALID_ARGUMENT);
  EXPECT_EQ(context, nullptr);
  EXPECT_THAT(gradwire_last_error(), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All, CApiOptions,
    testing::Values(BadOptions{"leve=2", "'leve' is unknown (did you mean 'level'?)"},
                    BadOptions{"level", "'level' has no value"},
                    BadOptions{"level=2,level=3", "'level' is given twice"},
                    BadOptions{"level=two", "level='two' is no whole number"},
                    BadOptions{"level=99999999999", "level: 99999999999 given"},
                    BadOptions{"level=2,", "'' has no value"},
                    BadOptions{"checksum=maybe", "neither true nor false"},
                    BadOptions{"zeros=bitmaps", "did you mean 'bitmap'"},
                    BadOptions{"coder=zip", "zip"}, BadOptions{"level=4", "level"}));

TEST(CApi, ReportsTheKindOfDamage) {
  const Bytes frame = float_frame(100);
  const Decompressor decompressor = new_decompressor();
  Bytes restored(400);
  std::size_t written = 0;
  const auto decompress = [&](const Bytes& bytes) {
    return gradwire_decompress(decompressor.get(), bytes.data(), bytes.size(), restored.data(),
                               restored.size(), &written);
  };
  EXPECT_EQ(decompress({frame.begin(), frame.begin() + 20}), GRADWIRE_TRUNCATED);
  EXPECT_EQ(decompress({}), GRADWIRE_TRUNCATED);
  Bytes damaged = frame;
  damaged.back() ^= 1;
  EXPECT_EQ(decompress(damaged), GRADWIRE_CORRUPT);
  Bytes other_major = frame;
  other_major[4] = 200;
  EXPECT_EQ(decompress(other_major), GRADWIRE_UNSUPPORTED);
  EXPECT_NE(std::string(gradwire_last_error()), "");
  EXPECT_EQ(decompress(frame), GRADWIRE_OK) << "a context outlives an error";
}

TEST(CApi, KeepsTheLastErrorForEachThread) {
  EXPECT_EQ(gradwire_decompressor_new(nullptr), GRADWIRE_INVALID_ARGUMENT);
  const std::string mine = gradwire_last_error();
  std::thread([] { EXPECT_STREQ(gradwire_last_error(), ""); }).join();
  EXPECT_EQ(gradwire_last_error(), mine);
}

TEST(CApi, HasAVersion) { EXPECT_STREQ(gradwire_version(), GRADWIRE_VERSION); }

}  // namespace
