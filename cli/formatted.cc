#include "formatted.h"

namespace gradwire::cli {

std::string format_erased(fmt::string_view format, fmt::format_args arguments) {
  return fmt::vformat(format, arguments);
}

}  // namespace gradwire::cli
