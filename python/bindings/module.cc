// The extension module gradwire._core: conversions and calls, no logic.
#include "bindings.h"
#include "gradwire/gradwire.h"

NB_MODULE(_core, module) {
  using namespace gradwire::python;
  module.doc() = "Bindings of the C++ library; use the package gradwire instead.";
  module.def("version", &gradwire_version);
  nanobind::set_leak_warnings(false);  // the library never prints
  bind_errors();
  bind_functions(module);
  bind_contexts(module);
  bind_archives(module);
  bind_exchange(module);
  bind_lossy(module);
}
