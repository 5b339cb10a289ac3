// gradwire methods: what a spec string may name.
#include "gradwire/methods.h"

#include <string>

#include "command.h"
#include "errors.h"
#include "formatted.h"
#include "text.h"

namespace gradwire::cli {
namespace {

int run() {
  TextTable table("llll");
  table.add({"method", "traits", "what it does", "source"});
  for (const Method& method : methods()) {
    table.add({std::string(method.name), std::string(method.traits), std::string(method.summary),
               std::string(method.source)});
    for (const MethodParameter& parameter : method.parameters) {
      table.add({formatted("  {}=", parameter.name), std::string(parameter.range),
                 std::string(parameter.meaning), formatted("default {}", parameter.default_value)});
    }
  }
  print(table.text());
  return kExitOk;
}

}  // namespace

void add_methods(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand("methods", "List the methods and their parameters");
  when_chosen(*command, exit_code, run);
}

}  // namespace gradwire::cli
