#include "api/source_header.h"

#include <algorithm>

#include "base/fail.h"

namespace gradwire::api {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kMaxSpaces = 65535;

std::string upper_name(DType dtype) {
  std::string name(dtype_name(dtype));
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return name;
}

/// The entry of one tensor; `offset` moves on by its bytes.
std::string render_entry(const SourceTensor& tensor, std::uint64_t& offset) {
  const std::uint64_t begin = offset;
  offset += tensor.bytes;
  return formatted("\"{}\":{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                   tensor.name, upper_name(tensor.dtype), fmt::join(tensor.shape, ","), begin,
                   offset);
}

void check_budget(std::uint64_t size, std::uint64_t budget) {
  if (size > budget)
    fail(ErrorKind::limit, "source: its header is more than the output limit of {} bytes", budget);
}

bool plain(const std::string& name) noexcept {
  return std::none_of(name.begin(), name.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f || c == '"' || c == '\\';
  });
}

}  // namespace

Bytes render_safetensors(ByteSpan prefix, std::span<const SourceTensor> tensors,
                         std::uint64_t spaces, std::uint64_t budget) {
  std::string text(1, '{');
  text.append(prefix.begin(), prefix.end());
  std::uint64_t offset = 0;
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    if (k > 0) text += ',';
    text += render_entry(tensors[k], offset);
    check_budget(text.size(), budget);
  }
  text += '}';
  check_budget(kLengthBytes + text.size() + spaces, budget);
  text.append(static_cast<std::size_t>(spaces), ' ');
  Bytes header(kLengthBytes + text.size());
  store(header.data(), std::uint64_t{text.size()});
  std::copy(text.begin(), text.end(), header.begin() + kLengthBytes);
  return header;
}

std::optional<DerivedHeader> derive_safetensors(ByteSpan header,
                                                std::span<const SourceTensor> tensors) {
  if (tensors.empty() || !std::all_of(tensors.begin(), tensors.end(),
                                      [](const SourceTensor& t) { return plain(t.name); })) {
    return std::nullopt;
  }
  std::uint64_t offset = 0;
  const std::string first = render_entry(tensors[0], offset);
  const auto found = std::search(header.begin(), header.end(), first.begin(), first.end());
  if (found == header.end() || found - header.begin() <= static_cast<std::ptrdiff_t>(kLengthBytes))
    return std::nullopt;
  DerivedHeader derived{Bytes(header.begin() + kLengthBytes + 1, found), 0};
  while (derived.spaces < header.size() && header[header.size() - 1 - derived.spaces] == ' ')
    ++derived.spaces;
  if (derived.spaces > kMaxSpaces) return std::nullopt;
  const Bytes again = render_safetensors(derived.prefix, tensors, derived.spaces, UINT64_MAX);
  if (!std::equal(again.begin(), again.end(), header.begin(), header.end())) return std::nullopt;
  return derived;
}

}  // namespace gradwire::api
