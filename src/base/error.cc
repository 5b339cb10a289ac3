#include "gradwire/error.h"

namespace gradwire {

const char* error_kind_name(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::invalid_argument:
      return "invalid_argument";
    case ErrorKind::unsupported:
      return "unsupported";
    case ErrorKind::truncated:
      return "truncated";
    case ErrorKind::corrupt:
      return "corrupt";
    case ErrorKind::limit:
      return "limit";
    case ErrorKind::transport:
      return "transport";
    case ErrorKind::io:
      return "io";
  }
  return "unknown";
}

}  // namespace gradwire
