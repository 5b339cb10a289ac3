// Text from a format string.
// In: a format string of fmt and its arguments.
// Out: text.
// Assumes: nothing. fmt's formatting is compiled once, in formatted.cc, which halves the build.
#pragma once

#include <string>

#include <fmt/format.h>

namespace gradwire::cli {

std::string format_erased(fmt::string_view format, fmt::format_args arguments);

template <typename... Args>
std::string formatted(fmt::format_string<Args...> format, Args&&... args) {
  return format_erased(format, fmt::make_format_args(args...));
}

}  // namespace gradwire::cli
