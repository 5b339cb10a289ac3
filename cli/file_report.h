// What `info` tells about a file: collected here, shown by info.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "frame_file.h"
#include "source.h"

namespace gradwire::cli {

/// Figures that need the values, not only the headers.
struct ValueReport {
  double zero_share = 0;
  double order0_bound = 0;
};

struct TensorReport {
  TensorInfo info;
  std::optional<ValueReport> values;
};

struct FileReport {
  std::string name;
  bool is_compressed = true;
  SourceKind kind = SourceKind::none;
  std::uint64_t file_bytes = 0;
  std::uint64_t source_header_bytes = 0;
  std::vector<TensorReport> tensors;

  /// Size of the restored file.
  std::uint64_t original_bytes() const;
  /// Means over the elements' bytes; nothing when values were not looked at.
  std::optional<ValueReport> mean() const;
};

/// With `with_values` every tensor is decoded, one at a time.
FileReport report_frame(std::span<const std::uint8_t> bytes, const DecompressOptions& options,
                        bool with_values);
FileReport report_source(const Source& source, std::uint64_t file_bytes, bool with_values);

}  // namespace gradwire::cli
