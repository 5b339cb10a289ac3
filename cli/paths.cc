#include "paths.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "errors.h"
#include "formatted.h"
#include "input_bytes.h"

namespace gradwire::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 2> kSourceEndings = {".safetensors", ".npy"};
constexpr std::array<std::string_view, 1> kFrameEndings = {".gw"};

bool has_ending(std::string_view name, std::span<const std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(), [&](std::string_view ending) {
    return name.size() > ending.size() && name.ends_with(ending);
  });
}

std::vector<InputFile> files_in(const std::string& folder,
                                std::span<const std::string_view> endings) {
  std::vector<InputFile> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    const std::string path = entry.path().string();
    if (entry.is_regular_file() && has_ending(path, endings)) {
      files.push_back({path, fs::relative(entry.path(), folder).string()});
    }
  }
  std::sort(files.begin(), files.end(),
            [](const InputFile& a, const InputFile& b) { return a.path < b.path; });
  if (files.empty()) {
    fail(ErrorKind::invalid_argument,
         formatted("no files in this folder end in {}", fmt::join(endings, " or ")));
  }
  return files;
}

std::string_view ending_of(SourceKind kind) {
  switch (kind) {
    case SourceKind::none:
    case SourceKind::safetensors:
      return ".safetensors";
    case SourceKind::npy:
      return ".npy";
    case SourceKind::raw:
      break;
  }
  return "";
}

bool is_folder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

}  // namespace

std::span<const std::string_view> source_endings() { return kSourceEndings; }
std::span<const std::string_view> frame_endings() { return kFrameEndings; }

InputSet find_inputs(const std::vector<std::string>& arguments,
                     std::span<const std::string_view> endings) {
  InputSet set;
  bool has_folder = false;
  for (const std::string& argument : arguments) {
    const int code = guarded(argument, [&] {
      if (is_standard_stream(argument) || !is_folder(argument)) {
        set.files.push_back({argument, fs::path(argument).filename().string()});
        return;
      }
      has_folder = true;
      const std::vector<InputFile> found = files_in(argument, endings);
      set.files.insert(set.files.end(), found.begin(), found.end());
    });
    if (set.exit_code == 0) set.exit_code = code;
  }
  set.is_one_file = arguments.size() == 1 && !has_folder;
  return set;
}

int for_each_file(const InputSet& inputs, const std::function<void(const InputFile&)>& work) {
  int first_code = inputs.exit_code;
  for (const InputFile& file : inputs.files) {
    const int code = guarded(shown_input(file.path), [&] { work(file); });
    if (first_code == 0) first_code = code;
  }
  return first_code;
}

std::string compressed_name(const InputFile& input) {
  const std::string name =
      is_standard_stream(input.path) ? "stdin" : fs::path(input.path).filename().string();
  return name + ".gw";
}

std::string restored_name(const InputFile& input, SourceKind kind) {
  std::string name =
      is_standard_stream(input.path) ? "stdin" : fs::path(input.path).filename().string();
  const bool had_ending = has_ending(name, kFrameEndings);
  if (had_ending) name.resize(name.size() - kFrameEndings[0].size());
  const std::string_view ending = ending_of(kind);
  if (!ending.empty() && !has_ending(name, std::array{ending})) return name + std::string(ending);
  return had_ending || !ending.empty() ? name : name + ".raw";
}

OutputNames::OutputNames(std::string wanted, const InputSet& inputs)
    : wanted_(std::move(wanted)), is_one_file_(inputs.is_one_file) {
  is_folder_ = !wanted_.empty() && (wanted_.back() == '/' || is_folder(wanted_));
  if (!wanted_.empty() && !is_folder_ && !is_one_file_) {
    fail(ErrorKind::invalid_argument,
         formatted("-o {}: several inputs go into a folder; make it, or end its name with /",
                   printable(wanted_)));
  }
}

std::string OutputNames::next(const InputFile& input, const std::string& name) {
  std::string path = place(input, name);
  if (is_standard_stream(path)) return path;
  std::error_code error;
  if (!is_standard_stream(input.path) && fs::equivalent(path, input.path, error)) {
    fail(ErrorKind::invalid_argument, "the output would replace its own input; choose another -o");
  }
  path = fs::path(path).lexically_normal().string();
  if (std::find(used_.begin(), used_.end(), path) != used_.end()) {
    fail(ErrorKind::invalid_argument,
         formatted("another input of this call went to {} already", printable(path)));
  }
  used_.push_back(path);
  return path;
}

std::string OutputNames::place(const InputFile& input, const std::string& name) const {
  if (wanted_.empty()) {
    if (is_standard_stream(input.path)) return input.path;
    return (fs::path(input.path).parent_path() / name).string();
  }
  if (!is_folder_) return wanted_;
  const fs::path folder = fs::path(wanted_) / fs::path(input.below).parent_path();
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail_errno(formatted("cannot make folder {}", folder.string()), error.value());
  return (folder / name).string();
}

}  // namespace gradwire::cli
