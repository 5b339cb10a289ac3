// The JSON header of a .safetensors file, read without trust.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gradwire::cli {

/// One entry of the header as it stands there; nothing is checked against the data yet.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> offsets;  ///< two: begin and end, from the start of the data
  std::uint64_t place = 0;             ///< byte of the file behind the entry's name
};

/// Entries in the order of the header. `text` is the JSON, `start` its byte in the file.
/// Throws Error(corrupt) naming tensor and byte for what is no JSON, for duplicate keys, for
/// missing fields and for fields of another type than they must have. Unknown fields are skipped.
std::vector<SafetensorsEntry> parse_safetensors_header(std::span<const std::uint8_t> text,
                                                       std::uint64_t start);

}  // namespace gradwire::cli
