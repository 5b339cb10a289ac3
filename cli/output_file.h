// One output: a file that appears whole or not at all, or stdout.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <sys/types.h>

namespace gradwire::cli {

/// Writes to a temporary file in the folder of `path`; commit() gives it its name. Without commit()
/// nothing of it remains. "-" is stdout; what is no regular file (a device, a pipe) is written in
/// place.
class OutputFile {
 public:
  /// Throws Error(io) when the path exists (unless `overwrite`) or cannot be written.
  OutputFile(std::string path, bool overwrite, std::optional<mode_t> mode);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  OutputFile(OutputFile&&) = delete;
  OutputFile& operator=(OutputFile&&) = delete;

  void write(std::span<const std::uint8_t> bytes);
  /// Flushes to disk and names the file. Throws Error(io).
  void commit();
  /// True if written bytes cannot be taken back: check everything before the first write.
  bool is_in_place() const { return temporary_.empty(); }
  const std::string& path() const { return path_; }

 private:
  void open_in_place();
  void open_temporary(std::optional<mode_t> mode);
  void rename_temporary();
  [[noreturn]] void fail_write(int error) const;

  std::string path_;
  std::string temporary_;  ///< empty when written in place, or after commit()
  int descriptor_ = -1;
  bool overwrite_;
};

}  // namespace gradwire::cli
