#include "errors.h"

#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>

#include "formatted.h"

namespace gradwire::cli {

int exit_code(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::invalid_argument:
      return kExitUsage;
    case ErrorKind::io:
      return kExitIo;
    case ErrorKind::truncated:
    case ErrorKind::corrupt:
      return kExitCorrupt;
    case ErrorKind::unsupported:
      return kExitUnsupported;
    case ErrorKind::limit:
      return kExitLimit;
    case ErrorKind::transport:
      break;
  }
  return kExitInternal;
}

void fail(ErrorKind kind, const std::string& message) { throw Error(kind, message); }

void fail_errno(const std::string& what, int error) {
  fail(ErrorKind::io, formatted("{}: {}", what, std::strerror(error)));
}

std::string printable(std::string_view text) {
  std::string out;
  for (const char character : text) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte < 0x20 || byte == 0x7f) {
      out += formatted("\\x{:02x}", byte);
    } else {
      out += character;
    }
  }
  return out;
}

std::string in_quotes(std::string_view name) {
  constexpr std::size_t kMostBytes = 120;
  if (name.size() <= kMostBytes) return formatted("'{}'", printable(name));
  return formatted("'{}...' ({} bytes)", printable(name.substr(0, kMostBytes)), name.size());
}

void report(const std::string& file, const std::string& message) {
  const std::string where = file.empty() ? "" : printable(file) + ": ";
  const std::string line = formatted("gradwire: {}{}\n", where, message);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

int guarded(const std::string& file, const std::function<void()>& work) {
  try {
    work();
    return kExitOk;
  } catch (const Error& error) {
    report(file, error.what());
    return exit_code(error.kind());
  } catch (const std::filesystem::filesystem_error& error) {
    report(file, error.code().message());
    return kExitIo;
  } catch (const std::bad_alloc&) {
    report(file, "out of memory");
    return kExitInternal;
  } catch (const std::exception& error) {
    report(file, formatted("internal error: {}", error.what()));
    return kExitInternal;
  }
}

}  // namespace gradwire::cli
