// Errors that the library throws: one class, six kinds, a sentence that names the place.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace gradwire {

/// What an error means to the caller.
enum class ErrorKind : std::uint8_t {
  invalid_argument = 1,  ///< the caller can fix the call
  unsupported = 2,       ///< a sound frame or request that this build cannot serve
  truncated = 3,         ///< the input ends too early; more bytes may help
  corrupt = 4,           ///< the input contradicts itself or its checksum
  limit = 5,             ///< a stated limit would be exceeded
  transport = 6,         ///< a peer failed or disagrees
  io = 7,                ///< the operating system refused: path, permission, space
};

/// Name of a kind as it stands in messages and in the Python classes ("corrupt", ...).
const char* error_kind_name(ErrorKind kind) noexcept;

/// The only exception that gradwire throws (besides std::bad_alloc).
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace gradwire
