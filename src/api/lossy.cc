// The calls of gradwire/lossy.h on tensors and files.

#include "gradwire/lossy.h"

#include <algorithm>
#include <cmath>

#include "api/frame_access.h"
#include "api/lossy_tensor.h"
#include "base/fail.h"
#include "base/hash.h"
#include "lossless/tensor_encoder.h"
#include "lossy/codec/elements.h"

namespace gradwire {
namespace {

constexpr std::size_t kCheckBytes = 16;  // a checksum, and zeros behind it

/// The frame of one lossy body without its end (docs/format.md 11, `check`).
Bytes frame_of(ByteSpan body, bool checksum) {
  const std::uint64_t size = body.size() + frame::section_bytes(kCheckBytes);
  Bytes frame;
  ByteWriter out(frame);
  frame::write_prelude(
      static_cast<std::uint16_t>(frame::kLossy | (checksum ? frame::kChecksums : 0)), size, out);
  out.bytes(body);
  Bytes check(kCheckBytes, 0);
  if (checksum) store(check.data(), hash64(frame));
  frame::write_section(frame::Section::check, check, out);
  return frame;
}

double combine(double a, double b) noexcept { return std::sqrt(a * a + b * b); }

}  // namespace

bool is_lossy_method(std::string_view spec) noexcept { return lossy::is_recipe(spec); }

std::string canonical_method(std::string_view spec) { return lossy::parse_recipe(spec).canonical; }

void LossyReport::add(const LossyReport& other) noexcept {
  const double kept = sign_agreement * static_cast<double>(nonzero) +
                      other.sign_agreement * static_cast<double>(other.nonzero);
  const double error = combine(relative_l2 * norm, other.relative_l2 * other.norm);
  elements += other.elements;
  selected += other.selected;
  index_bytes += other.index_bytes;
  value_bytes += other.value_bytes;
  largest_error = std::max(largest_error, other.largest_error);
  norm = combine(norm, other.norm);
  nonzero += other.nonzero;
  relative_l2 = norm > 0 ? error / norm : 0;
  sign_agreement = nonzero > 0 ? kept / static_cast<double>(nonzero) : 1;
}

std::vector<std::uint8_t> compress_lossy(const TensorView& tensor, std::string_view spec,
                                         std::string_view name, LossyReport* report,
                                         bool checksum) {
  const lossy::Recipe recipe = lossy::parse_file_recipe(spec);
  api::check_tensor(tensor);
  lossy::check_lossy_dtype(tensor.dtype);
  if (api::can_be_lossy(tensor)) {
    api::LossyMemory memory;
    Bytes body;
    if (api::encode_lossy(tensor, recipe, name, lossy::BodyEnd::none, memory, body, report))
      return frame_of(body, checksum);
  }
  CompressOptions options;
  options.checksum = checksum;
  std::vector<std::uint8_t> frame = compress(tensor, options);
  if (report != nullptr) *report = api::exact_report(tensor, frame.size());
  return frame;
}

}  // namespace gradwire
