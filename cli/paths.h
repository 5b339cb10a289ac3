// Which files a command works on, and what their outputs are called.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gradwire/frame.h"

namespace gradwire::cli {

/// A file to work on; `below` is its path relative to the folder that was named, else its file
/// name.
struct InputFile {
  std::string path;
  std::string below;
};

struct InputSet {
  std::vector<InputFile> files;
  bool is_one_file = false;  ///< exactly one file was named, and no folder
  int exit_code = 0;         ///< of the first argument that led nowhere
};

/// Endings of the files that `compress` and `decompress` find in folders.
std::span<const std::string_view> source_endings();
std::span<const std::string_view> frame_endings();

/// Replaces folders by the files in them (recursively, sorted) that have one of the endings.
/// Reports arguments that lead nowhere.
InputSet find_inputs(const std::vector<std::string>& arguments,
                     std::span<const std::string_view> endings);

/// Runs the work for each file; goes on after an error. Returns the first error's exit code.
int for_each_file(const InputSet& inputs, const std::function<void(const InputFile&)>& work);

/// "model.safetensors.gw"; "stdin.gw" for stdin.
std::string compressed_name(const InputFile& input);

/// Takes .gw off and adds the ending of the source's kind when the name has lost it.
std::string restored_name(const InputFile& input, SourceKind kind);

/// Decides where outputs go, by -o: beside the input, into a folder (made if missing), to one file.
class OutputNames {
 public:
  OutputNames(std::string wanted, const InputSet& inputs);
  /// Throws Error(invalid_argument) when two inputs would go to one file, or onto themselves.
  std::string next(const InputFile& input, const std::string& name);

 private:
  std::string place(const InputFile& input, const std::string& name) const;

  std::string wanted_;
  bool is_folder_ = false;
  bool is_one_file_;
  std::vector<std::string> used_;
};

}  // namespace gradwire::cli
