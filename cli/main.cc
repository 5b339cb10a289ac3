// gradwire, the command line tool.
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "command.h"
#include "errors.h"
#include "signals.h"

namespace gradwire::cli {
namespace {

constexpr const char* kFooter =
    "Exit codes: 0 ok, 1 wrong usage or argument, 2 input/output error, 3 corrupt or truncated\n"
    "input, 4 not supported, 5 limit exceeded, 6 other. With several files gradwire goes on after\n"
    "an error and exits with the first one's code.";

int parse_and_run(CLI::App& app, int argc, char** argv, const int& exit_code) {
  try {
    app.parse(argc, argv);
    return exit_code;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      app.exit(error);
      return kExitOk;
    }
    const auto chosen = app.get_subcommands();
    const std::string command = chosen.empty() ? "" : " " + chosen.front()->get_name();
    report("", std::string(error.what()) + " (gradwire" + command + " --help shows the usage)");
    return kExitUsage;
  }
}

/// A full disk behind stdout shows only now.
int flushed(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  if (errno != EPIPE) report("", std::string("cannot write stdout: ") + std::strerror(errno));
  return code == kExitOk ? kExitIo : code;
}

int run(int argc, char** argv) {
  install_signal_handlers();
  int exit_code = kExitOk;
  CLI::App app("Compression of gradients and other tensors, exact unless a lossy method is named.",
               "gradwire");
  app.set_version_flag("--version", "gradwire " GRADWIRE_VERSION);
  app.require_subcommand(1);
  add_compress(app, exit_code);
  add_decompress(app, exit_code);
  add_verify(app, exit_code);
  add_info(app, exit_code);
  add_bench(app, exit_code);
  add_train_tables(app, exit_code);
  add_methods(app, exit_code);
  app.footer(kFooter);
  for (CLI::App* const command : app.get_subcommands({})) command->footer(kFooter);
  return flushed(parse_and_run(app, argc, argv, exit_code));
}

}  // namespace
}  // namespace gradwire::cli

int main(int argc, char** argv) {
  int code = gradwire::cli::kExitInternal;
  gradwire::cli::guarded("", [&] { code = gradwire::cli::run(argc, argv); });
  return code;
}
