// A compressed file seen as a list of tensors, be it an archive or the frame of a single tensor.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gradwire/frame.h"

namespace gradwire::cli {

/// Reads from bytes that the caller keeps. Errors name the tensor.
class FrameFile {
 public:
  /// Throws Error(corrupt) when the bytes are no frame.
  FrameFile(std::span<const std::uint8_t> bytes, const DecompressOptions& options);

  bool is_archive() const { return reader_ != nullptr; }
  /// Raw for a single tensor.
  SourceKind kind() const;
  std::uint64_t compressed_bytes() const { return bytes_.size(); }

  std::size_t size() const { return infos_.size(); }
  const TensorInfo& info(std::size_t index) const { return infos_[index]; }
  bool is_lossy(std::size_t index) const { return infos_[index].pipeline == "lossy"; }
  /// Whether one of the tensors is.
  bool is_lossy() const;
  /// The tensor of that name; without a name the only tensor. Throws Error(invalid_argument).
  std::size_t find(const std::optional<std::string>& name) const;
  /// Restores a tensor into memory of exactly its size, which check_budget() has allowed.
  void read(std::size_t index, std::span<std::uint8_t> out) const;
  /// The same into a vector, which gets the tensor's size if the budget allows it.
  void read(std::size_t index, std::vector<std::uint8_t>& data) const;
  std::vector<std::uint8_t> range(std::size_t index, std::uint64_t first, std::uint64_t last) const;

  /// What stands before the data in the restored file; made up for an archive without a source.
  std::vector<std::uint8_t> header() const;
  /// Data of all tensors.
  std::uint64_t data_bytes() const { return data_bytes_; }
  /// Throws Error(limit) when this many bytes are more than the caller of the program allows.
  void check_budget(std::uint64_t bytes) const;

 private:
  void list_tensors();

  std::span<const std::uint8_t> bytes_;
  DecompressOptions options_;
  std::unique_ptr<ArchiveReader> reader_;
  std::vector<TensorInfo> infos_;
  std::uint64_t data_bytes_ = 0;
};

/// The header of a .safetensors file that holds these tensors one behind the other.
std::vector<std::uint8_t> safetensors_header(std::span<const TensorInfo> tensors);

/// "safetensors", "npy", "raw", "none".
std::string_view source_kind_name(SourceKind kind);

}  // namespace gradwire::cli
