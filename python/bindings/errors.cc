// gradwire::Error becomes the class of gradwire.errors that stands for its kind.
#include <exception>

#include "bindings.h"
#include "gradwire/error.h"

namespace gradwire::python {
namespace {

const char* class_name(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::invalid_argument:
      return "ArgumentError";
    case ErrorKind::unsupported:
      return "UnsupportedError";
    case ErrorKind::truncated:
      return "TruncatedError";
    case ErrorKind::corrupt:
      return "CorruptError";
    case ErrorKind::limit:
      return "LimitError";
    case ErrorKind::transport:
      return "TransportError";
    case ErrorKind::io:
      return "FileError";
  }
  return "GradwireError";
}

void translate(const std::exception_ptr& exception, void* /*payload*/) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    // Looked up here and not at import, so that the module also loads alone (for its stub).
    const nb::object type = nb::module_::import_("gradwire.errors").attr(class_name(error.kind()));
    PyErr_SetString(type.ptr(), error.what());
  }
}

}  // namespace

void bind_errors() { nb::register_exception_translator(translate); }

}  // namespace gradwire::python
