#include <algorithm>
#include <cctype>

#include <nlohmann/json.hpp>

#include "formatted.h"
#include "frame_file.h"

namespace gradwire::cli {
namespace {

/// safetensors has the same words in capitals.
std::string safetensors_dtype(DType dtype) {
  std::string name(dtype_name(dtype));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return name;
}

std::string json_string(const std::string& text) {
  using Json = nlohmann::json;
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::vector<std::uint8_t> safetensors_header(std::span<const TensorInfo> tensors) {
  constexpr std::size_t kAlignment = 8;
  std::string text = "{";
  std::uint64_t begin = 0;
  for (const TensorInfo& tensor : tensors) {
    const std::uint64_t end = begin + tensor.original_bytes;
    text += formatted(R"({}{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                      text.size() > 1 ? "," : "", json_string(tensor.name),
                      safetensors_dtype(tensor.dtype), fmt::join(tensor.shape, ","), begin, end);
    begin = end;
  }
  text += "}";
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  std::vector<std::uint8_t> header;
  for (unsigned i = 0; i < 8; ++i) {
    header.push_back(static_cast<std::uint8_t>(std::uint64_t{text.size()} >> (8 * i)));
  }
  header.insert(header.end(), text.begin(), text.end());
  return header;
}

}  // namespace gradwire::cli
