#include "api/lossy_tensor.h"

#include <algorithm>
#include <cmath>

#include "base/fail.h"
#include "lossy/codec/elements.h"

namespace gradwire::api {
namespace {

/// What the receiver of `body` has of a tensor of these values.
void compare(std::span<const float> values, std::span<const float> received, LossyReport& report) {
  double error_squares = 0, squares = 0;
  std::uint64_t kept_signs = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = values[i];
    const double error = static_cast<double>(received[i]) - value;
    squares += value * value;
    error_squares += error * error;
    report.largest_error = std::max(report.largest_error, std::abs(error));
    report.nonzero += value != 0;
    kept_signs += value * static_cast<double>(received[i]) > 0;
  }
  report.norm = std::sqrt(squares);
  if (squares > 0) report.relative_l2 = std::sqrt(error_squares / squares);
  if (report.nonzero > 0)
    report.sign_agreement = static_cast<double>(kept_signs) / static_cast<double>(report.nonzero);
}

/// `body` has bytes behind it that can be read.
LossyReport report_of(ByteSpan body, DType dtype, std::span<const float> values,
                      const lossy::BodyBytes& bytes, lossy::BodyEnd end, LossyMemory& memory) {
  LossyReport report{.elements = bytes.elements,
                     .selected = bytes.selected,
                     .index_bytes = bytes.index,
                     .value_bytes = bytes.scales + bytes.values};
  const lossy::Body read = lossy::read_body(body, {.end = end, .verify = false}, UINT64_MAX);
  lossy::decode_body(read, memory.coder.decode, memory.coder.decoded);
  memory.decoded.resize(static_cast<std::size_t>(read.header.bytes()));
  lossy::place_values(memory.coder.decoded, dtype, memory.decoded);
  std::vector<float> room;
  compare(values, lossy::as_floats(memory.decoded, dtype, room), report);
  return report;
}

}  // namespace

bool can_be_lossy(const TensorView& tensor) noexcept {
  return lossy::is_lossy_dtype(tensor.dtype) && !tensor.data.empty();
}

bool encode_lossy(const TensorView& tensor, const lossy::Recipe& recipe, std::string_view name,
                  lossy::BodyEnd end, LossyMemory& memory, Bytes& out, LossyReport* report) {
  constexpr std::size_t kReadable = 16;  // behind a body that is read
  lossy::TensorCoder coder(recipe, name.empty() ? "tensor" : std::string(name),
                           {tensor.shape.begin(), tensor.shape.end()}, 0, 1);
  if (coder.is_dense(0)) return false;
  const std::span<const float> values = lossy::as_floats(tensor.data, tensor.dtype, memory.values);
  const std::size_t before = out.size();
  const lossy::BodyBytes bytes = coder.encode(values, tensor.dtype, {}, end, memory.coder, out);
  const std::size_t size = out.size() - before;
  if (!lossy::is_lossy_body(ByteSpan(out).subspan(before))) {  // not finite, and passed on
    out.resize(before);
    return false;
  }
  if (report == nullptr) return true;
  out.resize(before + size + kReadable);
  *report =
      report_of(ByteSpan(out).subspan(before, size), tensor.dtype, values, bytes, end, memory);
  out.resize(before + size);
  return true;
}

LossyReport exact_report(const TensorView& tensor, std::uint64_t bytes) {
  const std::uint64_t n = tensor.data.size() / element_size(tensor.dtype);
  LossyReport report{.elements = n, .selected = n, .value_bytes = bytes};
  if (!can_be_lossy(tensor)) return report;
  std::vector<float> values(n);
  lossy::to_floats(tensor.data, tensor.dtype, values);
  std::ranges::replace_if(values, [](float value) { return !std::isfinite(value); }, 0.0F);
  compare(values, values, report);
  return report;
}

}  // namespace gradwire::api
