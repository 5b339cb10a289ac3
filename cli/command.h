// The commands of gradwire: each adds itself to the parser and, when chosen, sets the exit code.
#pragma once

#include <functional>
#include <string>

#include <CLI/CLI.hpp>

namespace gradwire::cli {

void add_compress(CLI::App& app, int& exit_code);
void add_decompress(CLI::App& app, int& exit_code);
void add_verify(CLI::App& app, int& exit_code);
void add_info(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_train_tables(CLI::App& app, int& exit_code);
void add_methods(CLI::App& app, int& exit_code);

/// Runs `run` when the command is chosen; what it throws concerns the call, not a file.
void when_chosen(CLI::App& command, int& exit_code, std::function<int()> run);

/// Prints to stdout; main() looks for errors at the end.
void print(const std::string& text);

/// Removes an input whose output is on disk. Throws Error(io).
void remove_input(const std::string& path);

}  // namespace gradwire::cli
