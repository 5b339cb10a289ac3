#include "base/formatted.h"

namespace gradwire {

std::string format_erased(fmt::string_view format, fmt::format_args arguments) {
  return fmt::vformat(format, arguments);
}

}  // namespace gradwire
