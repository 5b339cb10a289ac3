// Lossy methods on tensors and files, through the public calls.

#include "base/bytes.h"
#include "error_testing.h"
#include "gradwire/lossy.h"
#include "gradwire/methods.h"
#include "tensor_testing.h"

namespace gradwire::testing {
namespace {

constexpr DType kNarrow[] = {DType::f32, DType::bf16, DType::f16};
constexpr std::size_t kFlagsAt = 6;  // in a frame
constexpr std::uint8_t kLossyFlag = 8;

/// False for methods whose messages mean something between ranks only.
bool makes_files(std::string_view method) {
  const std::vector<std::uint64_t> shape{2, 2};
  const Bytes zeros(16);
  try {
    compress_lossy({DType::f32, shape, zeros}, method);
    return true;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("between ranks only"), std::string::npos) << method;
    return false;
  }
}

std::vector<std::string> file_methods() {
  std::vector<std::string> names;
  for (const Method& method : methods())
    if (is_lossy_method(method.name) && makes_files(method.name)) names.emplace_back(method.name);
  return names;
}

double value_at(const Bytes& data, DType dtype, std::size_t i) {
  if (dtype == DType::f32) return load<float>(data.data() + 4 * i);
  const auto bits = load<std::uint16_t>(data.data() + 2 * i);
  if (dtype == DType::bf16) return std::bit_cast<float>(std::uint32_t{bits} << 16);
  const int exponent = bits >> 10 & 31;
  const double fraction = bits & 1023;
  const double size =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

/// What a tensor lost, counted from its elements.
LossyReport counted(const Owned& tensor, const Bytes& restored) {
  LossyReport report;
  double error_squares = 0, squares = 0, kept = 0;
  for (std::size_t i = 0; i < element_count(tensor.shape); ++i) {
    const double was = value_at(tensor.data, tensor.dtype, i);
    const double is = value_at(restored, tensor.dtype, i);
    squares += was * was;
    error_squares += (is - was) * (is - was);
    report.largest_error = std::max(report.largest_error, std::abs(is - was));
    report.nonzero += was != 0;
    kept += (was > 0 && is > 0) || (was < 0 && is < 0);
  }
  if (squares > 0) report.relative_l2 = std::sqrt(error_squares) / std::sqrt(squares);
  if (report.nonzero > 0) report.sign_agreement = kept / static_cast<double>(report.nonzero);
  return report;
}

void expect_same_loss(const LossyReport& found, const LossyReport& wanted) {
  EXPECT_NEAR(found.relative_l2, wanted.relative_l2, 1e-12 * (1 + wanted.relative_l2));
  EXPECT_EQ(found.largest_error, wanted.largest_error);
  EXPECT_NEAR(found.sign_agreement, wanted.sign_agreement, 1e-12);
  EXPECT_EQ(found.nonzero, wanted.nonzero);
}

void check_method(const std::string& spec, const Owned& tensor, bool goes_exactly) {
  SCOPED_TRACE(spec + " on " + std::string(dtype_name(tensor.dtype)) + ", " +
               std::to_string(tensor.shape.size()) + " dimensions");
  LossyReport report;
  const Bytes frame = compress_lossy(tensor.view(), spec, "w", &report);
  EXPECT_TRUE(frame == compress_lossy(tensor.view(), spec, "w"));
  const Tensor restored = decompress(exact(frame));
  EXPECT_EQ(restored.dtype, tensor.dtype);
  EXPECT_EQ(restored.shape, tensor.shape);
  ASSERT_EQ(restored.data.size(), tensor.data.size());
  EXPECT_EQ(report.elements, element_count(tensor.shape));
  EXPECT_LE(report.selected, report.elements);
  expect_same_loss(report, counted(tensor, restored.data));
  EXPECT_EQ((frame[kFlagsAt] & kLossyFlag) != 0, !goes_exactly);
  EXPECT_EQ(tensor_info(frame).pipeline == "lossy", !goes_exactly);
  EXPECT_EQ(tensor_header(frame).shape, tensor.shape);
  if (!goes_exactly) return;
  EXPECT_TRUE(restored.data == tensor.data);
  EXPECT_EQ(report.value_bytes, frame.size());
}

TEST(LossyApi, EveryMethodComesBackAsItsReportSays) {
  TensorMaker make(71);
  const std::vector<Shape> shapes{{}, {1}, {0}, {1000}, {64, 33}};
  ASSERT_GE(file_methods().size(), 11u);
  for (const std::string& method : file_methods()) {
    for (const DType dtype : kNarrow) {
      for (const Shape& shape : shapes) {
        const Owned tensor = make(dtype, shape, Content::normal);
        check_method(method, tensor, shape.size() < 2);
        check_method(method + "(dense_vectors=false)", tensor, tensor.data.empty());
      }
      check_method(method, make(dtype, {64, 33}, Content::zeros), false);
      check_method(method, make(dtype, {64, 33}, Content::dead_lines), false);
    }
  }
}

TEST(LossyApi, TopKKeepsTheLargestAsTheyAre) {
  Owned tensor{DType::f32, {2, 4}, Bytes(32)};
  const float values[] = {0.5F, -3, 0.25F, 0, 2, -0.125F, 1, -0.0F};
  std::memcpy(tensor.data.data(), values, sizeof(values));
  LossyReport report;
  const Bytes frame = compress_lossy(tensor.view(), "topk(keep=0.25)", {}, &report);
  const float kept[] = {0, -3, 0, 0, 2, 0, 0, 0};
  EXPECT_EQ(std::memcmp(decompress(frame).data.data(), kept, sizeof(kept)), 0);
  EXPECT_EQ(report.selected, 2u);
  EXPECT_EQ(report.largest_error, 1);
  EXPECT_EQ(report.nonzero, 6u);
  EXPECT_DOUBLE_EQ(report.sign_agreement, 2.0 / 6);
  EXPECT_DOUBLE_EQ(report.relative_l2, std::sqrt(1.328125 / 14.328125));
}

TEST(LossyApi, ErrorsAreThoseOfValuesRoundedToTheDtype) {
  // What 255 levels of a scale give is no bf16 yet.
  TensorMaker make(72);
  const Owned tensor = make(DType::bf16, {40, 50}, Content::normal);
  LossyReport report;
  const Bytes frame = compress_lossy(tensor.view(), "cast(values=int8,feedback=true)", {}, &report);
  expect_same_loss(report, counted(tensor, decompress(frame).data));
  EXPECT_GT(report.relative_l2, 1e-4);
  // A bucket of 512 with largest N has errors of N / 254 at most, and norm N at least.
  EXPECT_LT(report.relative_l2, std::sqrt(512.0) / 254 + 0x1p-8);
}

TEST(LossyApi, ReportsOfTensorsAddUpToThatOfBoth) {
  TensorMaker make(73);
  const Owned whole = make(DType::f32, {60, 30}, Content::normal);
  const Owned parts[] = {
      {DType::f32, {20, 30}, Bytes(whole.data.begin(), whole.data.begin() + 2400)},
      {DType::f32, {40, 30}, Bytes(whole.data.begin() + 2400, whole.data.end())}};
  LossyReport sum;
  Bytes restored;
  for (const Owned& part : parts) {
    LossyReport report;
    const Bytes data = decompress(compress_lossy(part.view(), "topk(keep=0.2)", {}, &report)).data;
    restored.insert(restored.end(), data.begin(), data.end());
    sum.add(report);
  }
  expect_same_loss(sum, counted(whole, restored));
  EXPECT_EQ(sum.elements, 1800u);
  EXPECT_EQ(sum.selected, 360u);
}

// --- bad arguments -------------------------------------------------------------------

TEST(LossyApi, WrongSpecsAreOneClearError) {
  const Owned tensor{DType::f32, {1, 1}, Bytes(4)};
  const auto message = [&](const char* spec) {
    return refusal(ErrorKind::invalid_argument, [&] { compress_lossy(tensor.view(), spec); });
  };
  EXPECT_NE(message("topkk").find("did you mean 'topk'"), std::string::npos);
  EXPECT_NE(message("topk(kep=0.1)").find("did you mean 'keep'"), std::string::npos);
  EXPECT_NE(message("topk(keep=2)").find("keep: 2 given"), std::string::npos);
  EXPECT_NE(message("topk(feedback=false)").find("biased"), std::string::npos);
  EXPECT_NE(message("lossless").find("'lossless' is unknown"), std::string::npos);
  EXPECT_EQ(canonical_method(" topk( values=f16, keep=0.010 )"), "topk(values=f16)");
  EXPECT_TRUE(is_lossy_method("topk(nonsense"));
  EXPECT_FALSE(is_lossy_method("lossless"));
  EXPECT_FALSE(is_lossy_method("topkk"));
}

TEST(LossyApi, WhereExactMethodsAreDueALossyOneIsRefusedByName) {
  const std::string said =
      refusal(ErrorKind::invalid_argument, [] { parse_method("topk(keep=0.1)"); });
  EXPECT_NE(said.find("'topk' is lossy"), std::string::npos);
  EXPECT_NE(refusal(ErrorKind::invalid_argument, [] { parse_method("topkk"); }).find("'topk'"),
            std::string::npos);
}

TEST(LossyApi, OtherDtypesAndWhatIsNotFiniteAreRefused) {
  TensorMaker make(74);
  const Owned wide = make(DType::f64, {4, 4}, Content::normal);
  EXPECT_NE(refusal(ErrorKind::invalid_argument, [&] { compress_lossy(wide.view(), "topk"); })
                .find("f64"),
            std::string::npos);
  Owned tensor = make(DType::f32, {4, 4}, Content::normal);
  store(tensor.data.data() + 20, std::numeric_limits<float>::quiet_NaN());
  const std::string said =
      refusal(ErrorKind::invalid_argument, [&] { compress_lossy(tensor.view(), "topk"); });
  EXPECT_NE(said.find("element 5"), std::string::npos) << said;
  LossyReport report;
  const Bytes frame = compress_lossy(tensor.view(), "topk(nan=pass)", {}, &report);
  EXPECT_TRUE(decompress(frame).data == tensor.data);
  EXPECT_EQ(report.largest_error, 0);
  EXPECT_EQ(report.relative_l2, 0);
}

}  // namespace
}  // namespace gradwire::testing
