// In: a safetensors file that is taken to be sound.
// Out: its f32, bf16 and f16 tensors as floats, one after another.
// Assumes: little-endian fields, no white space in the header.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "base/half.h"

namespace gradwire::bench {

struct Tensor {
  std::vector<float> values;
  std::vector<std::uint64_t> shape;
};

/// The text behind `"key":` up to the next of `ends`, from `at` on.
inline std::string field(const std::string& header, std::size_t at, const std::string& key,
                         char end) {
  const std::size_t start = header.find("\"" + key + "\":", at) + key.size() + 3;
  return header.substr(start, header.find(end, start) - start);
}

inline std::vector<float> widen(const char* data, std::size_t bytes, const std::string& dtype) {
  const std::size_t width = dtype == "F32" ? 4 : 2;
  std::vector<float> values(bytes / width);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint32_t bits = 0;
    for (std::size_t k = width; k-- > 0;)
      bits = bits << 8 | static_cast<unsigned char>(data[i * width + k]);
    if (dtype == "F32")
      values[i] = std::bit_cast<float>(bits);
    else if (dtype == "BF16")
      values[i] = from_bf16(static_cast<std::uint16_t>(bits));
    else
      values[i] = from_f16(static_cast<std::uint16_t>(bits));
  }
  return values;
}

inline std::vector<Tensor> read_tensors(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::size_t length = 0;
  for (std::size_t k = 8; k-- > 0;) length = length << 8 | static_cast<unsigned char>(all.at(k));
  const std::string header = all.substr(8, length);
  std::vector<Tensor> tensors;
  for (std::size_t at = header.find("\"dtype\""); at != std::string::npos;
       at = header.find("\"dtype\"", at + 1)) {
    std::string dtype = field(header, at, "dtype", ',');
    std::erase(dtype, '"');
    if (dtype != "F32" && dtype != "BF16" && dtype != "F16") continue;
    const std::string offsets = field(header, at, "data_offsets", ']');
    const std::size_t begin = std::stoull(offsets.substr(offsets.find('[') + 1));
    const std::size_t end = std::stoull(offsets.substr(offsets.find(',') + 1));
    Tensor tensor{widen(all.data() + 8 + length + begin, end - begin, dtype), {}};
    std::istringstream shape(field(header, at, "shape", ']').substr(1));
    for (std::string size; std::getline(shape, size, ',');)
      tensor.shape.push_back(std::stoull(size));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace gradwire::bench
