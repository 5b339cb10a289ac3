// What tests of whole tensors share: seeded tensors of every dtype, compared by their bits.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/formatted.h"
#include "gradwire/compress.h"
#include "gradwire/frame.h"

namespace gradwire::testing {

using Bytes = std::vector<std::uint8_t>;
using Shape = std::vector<std::uint64_t>;

inline constexpr DType kFloats[] = {DType::f32, DType::bf16, DType::f16, DType::f64};

inline std::vector<DType> all_dtypes() {
  std::vector<DType> dtypes;
  for (int id = 1; id <= 15; ++id) dtypes.push_back(static_cast<DType>(id));
  return dtypes;
}

struct Owned {
  DType dtype = DType::f32;
  Shape shape;
  Bytes data;
  TensorView view() const { return {dtype, shape, data}; }
};

inline std::uint64_t element_count(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::uint64_t{1}, std::multiplies<>());
}

/// What a tensor holds.
enum class Content {
  zeros,
  constant,
  random_bits,
  normal,         ///< a scale a row and a scale a column (first dimension against the rest)
  smooth,         ///< neighbours alike, as the taps of a kernel are
  alike_kernels,  ///< runs of nine elements that differ in little but a factor
  mostly_zero,    ///< scattered zeros
  dead_lines,     ///< whole rows and columns of zeros, scattered ones too
  bf16_values,    ///< wide dtypes with the low fraction bits unused
  mean_of_bf16,   ///< sum of two such, halved: few significant bits
  specials,       ///< NaN payloads, infinities, -0.0, subnormals among normal values
};
inline constexpr Content kContents[] = {
    Content::zeros,       Content::constant,      Content::random_bits, Content::normal,
    Content::smooth,      Content::alike_kernels, Content::mostly_zero, Content::dead_lines,
    Content::bf16_values, Content::mean_of_bf16,  Content::specials};

/// Round towards zero is enough here, subnormals included.
inline std::uint16_t half_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  const float magnitude = std::fabs(value);
  if (!(magnitude < 65504.0f)) return static_cast<std::uint16_t>(sign | 0x7BFF);
  if (magnitude < 0x1p-14f) {
    return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(magnitude * 0x1p24f));
  }
  const std::uint32_t rebased = (bits & 0x7FFFFFFF) - (112u << 23);
  return static_cast<std::uint16_t>(sign | rebased >> 13);
}

/// The bits of a value in a dtype; integers get its rounded multiple of 16.
inline std::uint64_t bits_of(DType dtype, double value) {
  switch (dtype) {
    case DType::f32:
      return std::bit_cast<std::uint32_t>(static_cast<float>(value));
    case DType::bf16:
      return std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16;
    case DType::f16:
      return half_bits(static_cast<float>(value));
    case DType::f64:
      return std::bit_cast<std::uint64_t>(value);
    case DType::f8_e4m3:
    case DType::f8_e5m2:
      return half_bits(static_cast<float>(value)) >> 8;
    case DType::boolean:
      return value > 0 ? 1 : 0;
    default:
      return static_cast<std::uint64_t>(std::llround(std::clamp(value, -1e15, 1e15) * 16));
  }
}

inline double bf16_rounded(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return std::bit_cast<float>(bits & 0xFFFF0000u);
}

class TensorMaker {
 public:
  explicit TensorMaker(std::uint64_t seed) : random_(seed) {}

  Owned operator()(DType dtype, const Shape& shape, Content content) {
    const std::uint64_t n = element_count(shape);
    const std::size_t width = element_size(dtype);
    const std::uint64_t rows = shape.size() < 2 || n == 0 ? 1 : shape[0];
    const std::uint64_t columns = n == 0 ? 1 : n / rows;
    Owned tensor{dtype, shape, Bytes(n * width)};
    row_scale_ = scales(rows);
    column_scale_ = scales(std::min<std::uint64_t>(columns, 4096));
    constant_ = random_();
    for (std::uint64_t i = 0; i < n; ++i) {
      const std::uint64_t bits = element(dtype, content, i / columns, i % columns);
      std::memcpy(tensor.data.data() + i * width, &bits, width);
    }
    return tensor;
  }
  std::mt19937_64& random() { return random_; }

 private:
  std::vector<double> scales(std::uint64_t n) {
    std::vector<double> result(n);
    for (double& scale : result) scale = std::exp2(1.5 * normal_(random_));
    return result;
  }

  std::uint64_t element(DType dtype, Content content, std::uint64_t row, std::uint64_t column) {
    const double scale = 1e-2 * row_scale_[row] * column_scale_[column % column_scale_.size()];
    const double value = scale * normal_(random_);
    switch (content) {
      case Content::zeros:
        return 0;
      case Content::constant:
        return constant_;
      case Content::random_bits:
        return random_();
      case Content::normal:
        return bits_of(dtype, value);
      case Content::smooth:
        walk_ = 0.95 * walk_ + 0.3 * normal_(random_);
        return bits_of(dtype, 1e-3 * row_scale_[row] * walk_);
      case Content::alike_kernels: {
        constexpr double kPattern[] = {1, -0.6, 0.8, 1.3, -2, 0.7, 0.4, -0.9, 1.1};
        if (column % 9 == 0) walk_ = value;
        return bits_of(dtype, walk_ * kPattern[column % 9] * (1 + 0.02 * normal_(random_)));
      }
      case Content::mostly_zero:
        return random_() % 5 == 0 ? bits_of(dtype, value) : 0;
      case Content::dead_lines: {
        const bool dead = row % 3 == 1 || column % 7 == 2 || random_() % 11 == 0;
        return dead ? 0 : bits_of(dtype, value);
      }
      case Content::bf16_values:
        return bits_of(dtype, bf16_rounded(value));
      case Content::mean_of_bf16: {
        const double other = scale * normal_(random_);
        return bits_of(dtype, (bf16_rounded(value) + bf16_rounded(other)) / 2);
      }
      case Content::specials:
        return random_() % 4 != 0 ? bits_of(dtype, value) : special(dtype);
    }
    return 0;
  }

  std::uint64_t special(DType dtype) {
    const unsigned bits = static_cast<unsigned>(8 * element_size(dtype));
    const unsigned fraction = dtype == DType::f64   ? 52
                              : dtype == DType::f32 ? 23
                              : dtype == DType::f16 ? 10
                                                    : std::min(7u, bits - 2);
    const std::uint64_t sign = (random_() & 1) << (bits - 1);
    const std::uint64_t exponents = ((std::uint64_t{1} << (bits - 1 - fraction)) - 1) << fraction;
    const std::uint64_t payload = random_() & ((std::uint64_t{1} << fraction) - 1);
    switch (random_() % 6) {
      case 0:
        return sign;  // +0.0 or -0.0
      case 1:
        return sign | exponents;  // infinity
      case 2:
        return sign | exponents | payload;
      case 3:
        return sign | payload;  // subnormal
      case 4:
        return sign | (exponents - (std::uint64_t{1} << fraction)) | payload;  // largest
      default:
        return sign | 1;  // smallest subnormal
    }
  }

  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  std::vector<double> row_scale_, column_scale_;
  std::uint64_t constant_ = 0;
  double walk_ = 0;
};

/// A small shape of up to eight dimensions.
inline Shape draw_shape(std::mt19937_64& random) {
  const auto below = [&](std::uint64_t limit) { return random() % limit; };
  switch (below(6)) {
    case 0:
      return {below(5000)};
    case 1:
      return {1 + below(100), 1 + below(100)};
    case 2:
      return {1 + below(40), 1 + below(12), 3, 3};
    case 3:
      return {1 + below(30), 1 + below(30), 1 + below(8)};
    case 4:
      return {1 + below(12), 1 + below(12), 2, 3, 3};
    default: {
      Shape shape(below(9));
      for (std::uint64_t& dim : shape) dim = 1 + below(4);
      return shape;
    }
  }
}

/// A copy that owns no byte more than it shows, so that AddressSanitizer sees reads past its end.
inline Bytes exact(std::span<const std::uint8_t> bytes) { return {bytes.begin(), bytes.end()}; }

inline std::string describe(const Owned& tensor, const CompressOptions& options) {
  return formatted("{} ({}) level {} coder {} tables {} zeros {} pairs {} checksum {} threads {}",
                   dtype_name(tensor.dtype), fmt::join(tensor.shape, ","), options.level,
                   static_cast<int>(options.coder), static_cast<int>(options.tables),
                   static_cast<int>(options.zeros), options.pairs, options.checksum,
                   options.threads);
}

/// Compresses, checks the bound, restores, compares bits. Returns the frame, of exact size.
inline Bytes expect_round_trip(const Owned& tensor, const CompressOptions& options = {}) {
  SCOPED_TRACE(describe(tensor, options));
  const Bytes original = tensor.data;
  const Bytes frame = exact(compress(tensor.view(), options));
  EXPECT_TRUE(original == tensor.data) << "the input was changed";
  EXPECT_LE(frame.size(), compress_bound(tensor.dtype, element_count(tensor.shape)));
  try {
    const Tensor back = decompress(frame);
    EXPECT_EQ(back.dtype, tensor.dtype);
    EXPECT_EQ(back.shape, tensor.shape);
    EXPECT_TRUE(back.data == tensor.data) << "other bits came back";
  } catch (const Error& error) {
    ADD_FAILURE() << "own frame refused: " << error.what();
  }
  return frame;
}

/// The kind of the Error that a call throws; 0 when it throws none.
template <typename Function>
int error_kind(const Function& function) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_STRNE(error.what(), "");
    return static_cast<int>(error.kind());
  }
  return 0;
}

template <typename Function>
void expect_error(ErrorKind kind, const Function& function) {
  EXPECT_STREQ(error_kind_name(static_cast<ErrorKind>(error_kind(function))),
               error_kind_name(kind));
}

}  // namespace gradwire::testing
