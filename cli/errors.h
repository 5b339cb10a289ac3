// Exit codes, and errors that name the file they concern.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "gradwire/error.h"

namespace gradwire::cli {

/// Documented in docs/cli.md and in --help; they never change.
enum ExitCode : int {
  kExitOk = 0,
  kExitUsage = 1,
  kExitIo = 2,
  kExitCorrupt = 3,
  kExitUnsupported = 4,
  kExitLimit = 5,
  kExitInternal = 6,
};

/// The exit code of an error of this kind.
int exit_code(ErrorKind kind) noexcept;

/// Throws Error.
[[noreturn]] void fail(ErrorKind kind, const std::string& message);

/// Throws Error(io): "WHAT: No such file or directory".
[[noreturn]] void fail_errno(const std::string& what, int error);

/// The text with control characters escaped, so that a hostile name cannot drive the terminal.
std::string printable(std::string_view text);

/// A tensor's name as messages show it: quoted, printable, cut when very long.
std::string in_quotes(std::string_view name);

/// Prints "gradwire: FILE: message" on stderr; without FILE when that is empty.
void report(const std::string& file, const std::string& message);

/// Runs the work; reports what it throws. Returns the exit code.
int guarded(const std::string& file, const std::function<void()>& work);

}  // namespace gradwire::cli
