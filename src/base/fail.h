// In: an error kind and a format string.
// Out: a thrown Error whose message is a sentence.
// Assumes: the message names the operation, the field of docs/format.md, the byte offset, the
// value found and the values allowed.
#pragma once

#include <utility>

#include "base/formatted.h"
#include "gradwire/error.h"

namespace gradwire {

template <typename... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, formatted(format, std::forward<Args>(args)...));
}

}  // namespace gradwire
