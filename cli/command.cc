#include "command.h"

#include <cerrno>
#include <cstdio>
#include <unistd.h>
#include <utility>

#include "errors.h"

namespace gradwire::cli {

void when_chosen(CLI::App& command, int& exit_code, std::function<int()> run) {
  command.callback([&exit_code, run = std::move(run)] {
    int code = kExitOk;
    const int failed = guarded("", [&] { code = run(); });
    exit_code = failed != kExitOk ? failed : code;
  });
}

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void remove_input(const std::string& path) {
  if (::unlink(path.c_str()) != 0) fail_errno("cannot remove", errno);
}

}  // namespace gradwire::cli
