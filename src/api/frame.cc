// The calls of gradwire/frame.h about single frames, and bounds.

#include "gradwire/frame.h"

#include <array>
#include <cmath>
#include <utility>

#include "api/frame_access.h"
#include "base/float_format.h"

namespace gradwire {
namespace {

std::uint64_t element_bits(const std::uint8_t* at, std::size_t width) noexcept {
  std::uint64_t bits = 0;
  std::memcpy(&bits, at, width);
  return bits;
}

/// Order-0 entropy in bits of all counted symbols.
template <typename Counts>
double entropy_bits(const Counts& counts) {
  double total = 0;
  double sum = 0;
  for (const auto count : counts) {
    if (count == 0) continue;
    total += static_cast<double>(count);
    sum += static_cast<double>(count) * std::log2(static_cast<double>(count));
  }
  return total == 0 ? 0 : total * std::log2(total) - sum;
}

double float_bound(const TensorView& tensor) {
  const FloatFormat format = float_format(tensor.dtype);
  const std::size_t width = element_size(tensor.dtype);
  const std::uint64_t exponents = std::uint64_t{1} << format.exponent_bits;
  const unsigned whole = format.fraction_bits / 8;
  std::vector<std::uint64_t> exponent_counts(exponents + 1, 0);  // the last is for zeros
  std::vector<std::array<std::uint64_t, 256>> low(whole);
  double raw = 0;
  for (std::size_t i = 0; i < tensor.data.size(); i += width) {
    const std::uint64_t bits = element_bits(tensor.data.data() + i, width);
    ++exponent_counts[bits == 0 ? exponents : bits >> format.fraction_bits & (exponents - 1)];
    if (bits != 0) raw += 1 + format.fraction_bits - 8 * whole;
    for (unsigned b = 0; b < whole; ++b) ++low[b][bits >> (8 * b) & 255];
  }
  double total = raw + entropy_bits(exponent_counts);
  for (const auto& counts : low) total += entropy_bits(counts);
  return total / (8.0 * static_cast<double>(tensor.data.size()));
}

double plane_bound(const TensorView& tensor) {
  const std::size_t width = element_size(tensor.dtype);
  double total = 0;
  for (std::size_t b = 0; b < width; ++b) {
    std::array<std::uint64_t, 256> counts{};
    for (std::size_t i = b; i < tensor.data.size(); i += width) ++counts[tensor.data[i]];
    total += entropy_bits(counts);
  }
  return total / (8.0 * static_cast<double>(tensor.data.size()));
}

}  // namespace

TensorInfo tensor_info(std::span<const std::uint8_t> frame) {
  return api::open_frame(frame, UINT64_MAX, false)
      .describe(frame.size(), api::output_budget({}, frame.size()));
}

Tensor tensor_header(std::span<const std::uint8_t> frame) {
  const frame::Prelude prelude = frame::read_prelude(frame);
  api::refuse_archive(prelude);
  frame::TensorHeader header =
      frame::peek_tensor_header(frame.subspan(prelude.header_bytes), prelude.header_bytes);
  if (header.pipeline == frame::Pipeline::lossy && !prelude.lossy()) frame::refuse_lossy();
  return {header.dtype, std::move(header.dims), {}};
}

std::optional<std::uint64_t> frame_size(std::span<const std::uint8_t> start) {
  const auto prelude = frame::peek_prelude(start);
  if (!prelude) return std::nullopt;
  return prelude->header_bytes + prelude->body_bytes;
}

bool is_archive(std::span<const std::uint8_t> frame) {
  return frame::read_prelude(frame).archive();
}

std::vector<std::uint8_t> decompress_range(std::span<const std::uint8_t> frame, std::uint64_t first,
                                           std::uint64_t last, const DecompressOptions& options) {
  api::check_options(options);
  return api::open_frame(frame, UINT64_MAX, options.verify)
      .range(first, last, api::output_budget(options, frame.size()));
}

double order0_bound(const TensorView& tensor) {
  api::check_tensor(tensor);
  if (tensor.data.empty()) return 0;
  return is_float(tensor.dtype) ? float_bound(tensor) : plane_bound(tensor);
}

double zero_share(const TensorView& tensor) {
  api::check_tensor(tensor);
  const std::size_t width = element_size(tensor.dtype);
  const std::size_t n = tensor.data.size() / width;
  std::size_t zeros = 0;
  for (std::size_t i = 0; i < n; ++i)
    zeros += element_bits(tensor.data.data() + i * width, width) == 0;
  return n == 0 ? 0 : static_cast<double>(zeros) / static_cast<double>(n);
}

}  // namespace gradwire
