// The bytes of one input: a mapped file, or all of a pipe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <sys/types.h>

namespace gradwire::cli {

/// True for "-", which stands for stdin and stdout.
bool is_standard_stream(const std::string& path);

/// How messages call the path: "stdin" for "-".
std::string shown_input(const std::string& path);

/// Read-only bytes of a file or of stdin. Regular files are mapped, others are read to their end.
class InputBytes {
 public:
  /// Throws Error(io) when the path is missing, unreadable or a folder.
  explicit InputBytes(const std::string& path);
  ~InputBytes();
  InputBytes(const InputBytes&) = delete;
  InputBytes& operator=(const InputBytes&) = delete;
  InputBytes(InputBytes&&) = delete;
  InputBytes& operator=(InputBytes&&) = delete;

  std::span<const std::uint8_t> bytes() const { return {data_, size_}; }
  /// Gives memory back: this part of bytes() will not be read again.
  void forget(std::span<const std::uint8_t> part) const;
  /// Permission bits of a regular file, for the file made from it.
  std::optional<mode_t> mode() const { return mode_; }

 private:
  void map(int descriptor, std::size_t size);
  void read_all(int descriptor);
  void grow(std::size_t capacity);

  std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;  ///< mapped bytes
  std::optional<mode_t> mode_;
};

}  // namespace gradwire::cli
