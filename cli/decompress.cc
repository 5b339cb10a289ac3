// gradwire decompress: .gw files to the files they came from, or single tensors of them.
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "command.h"
#include "errors.h"
#include "formatted.h"
#include "frame_file.h"
#include "input_bytes.h"
#include "npy.h"
#include "options.h"
#include "output_file.h"
#include "paths.h"
#include "progress.h"
#include "text.h"

namespace gradwire::cli {
namespace {

struct DecompressFlags {
  std::vector<std::string> files;
  DecodeFlags decode;
  OutputFlags output;
  std::optional<std::string> tensor;  // a name may be empty
  std::string range;

  bool selects() const { return tensor.has_value() || !range.empty(); }
};

bool is_npy(const std::string& path) { return path.ends_with(".npy"); }

/// One call of the command.
class Decompression {
 public:
  Decompression(const DecompressFlags& flags, const InputSet& inputs)
      : flags_(flags), options_(decompress_options(flags.decode)), names_(wanted(flags), inputs) {
    if (!flags.selects()) return;
    if (!inputs.is_one_file || flags.output.remove) {
      fail(ErrorKind::invalid_argument, "--tensor and --range take one file, and no --rm");
    }
    std::error_code error;
    if (wanted(flags).empty() || std::filesystem::is_directory(wanted(flags), error)) {
      fail(ErrorKind::invalid_argument,
           "--tensor and --range need -o: a file, .npy for NumPy, or - for stdout");
    }
  }

  void decompress_file(const InputFile& file) {
    const InputBytes input(file.path);
    const FrameFile frame(input.bytes(), options_);
    const std::string path = names_.next(file, restored_name(file, frame.kind()));
    check_removal(file, path);
    if (flags_.selects()) {
      write_selection(frame, path);
    } else {
      write_all(frame, file, path, input.mode());
    }
    note_loss(frame, file);
    if (flags_.output.remove) remove_input(file.path);
  }

 private:
  /// Says once that a file does not come back as it was.
  void note_loss(const FrameFile& frame, const InputFile& file) {
    if (is_loss_noted_ || flags_.output.quiet) return;
    is_loss_noted_ =
        flags_.selects() ? frame.is_lossy(frame.find(flags_.tensor)) : frame.is_lossy();
    if (!is_loss_noted_) return;
    report(shown_input(file.path),
           "was made by a lossy method: the values are the method's, not the source's");
  }

  /// A part of stdin goes to stdout like the whole of it.
  static std::string wanted(const DecompressFlags& flags) {
    const bool is_stdin = flags.files.size() == 1 && is_standard_stream(flags.files.front());
    return flags.output.output.empty() && is_stdin ? "-" : flags.output.output;
  }

  void check_removal(const InputFile& file, const std::string& path) const {
    const bool is_pipe = is_standard_stream(file.path) || is_standard_stream(path);
    if (!flags_.output.remove || !is_pipe) return;
    fail(ErrorKind::invalid_argument, "--rm needs a file as input and a file as output");
  }

  void write_selection(const FrameFile& frame, const std::string& path) const {
    const std::size_t index = frame.find(flags_.tensor);
    const TensorInfo& info = frame.info(index);
    OutputFile output(path, flags_.output.force, std::nullopt);
    std::vector<std::uint8_t> data;
    std::vector<std::uint64_t> shape = info.shape;
    if (flags_.range.empty()) {
      frame.read(index, data);
    } else {
      const auto [first, last] = parse_range(flags_.range, info.elements);
      data = frame.range(index, first, last);
      shape = {last - first};
    }
    if (is_npy(path)) output.write(npy_header(info.dtype, shape));
    output.write(data);
    output.commit();
    summarise(output.path(), data.size());
  }

  void write_all(const FrameFile& frame, const InputFile& file, const std::string& path,
                 std::optional<mode_t> mode) const {
    const bool is_made_npy = !frame.is_archive() && is_npy(path);
    const std::vector<std::uint8_t> header =
        is_made_npy ? npy_header(frame.info(0).dtype, frame.info(0).shape) : frame.header();
    const std::uint64_t total = header.size() + frame.data_bytes();
    frame.check_budget(total);
    OutputFile output(path, flags_.output.force, mode);
    Progress progress(shown_input(file.path), total, flags_.output.quiet);
    if (output.is_in_place()) {
      output.write(restore(frame, header, progress));
    } else {
      output.write(header);
      stream(frame, output, progress);
    }
    output.commit();
    summarise(output.path(), total);
  }

  /// A pipe cannot be taken back, so nothing goes there before everything is checked.
  static std::vector<std::uint8_t> restore(const FrameFile& frame, std::vector<std::uint8_t> whole,
                                           Progress& progress) {
    std::size_t end = whole.size();
    whole.resize(end + frame.data_bytes());
    for (std::size_t i = 0; i < frame.size(); ++i) {
      const std::size_t size = frame.info(i).original_bytes;
      frame.read(i, std::span(whole).subspan(end, size));
      end += size;
      progress.advance(size);
    }
    return whole;
  }

  static void stream(const FrameFile& frame, OutputFile& output, Progress& progress) {
    std::vector<std::uint8_t> data;
    for (std::size_t i = 0; i < frame.size(); ++i) {
      frame.read(i, data);
      output.write(data);
      progress.advance(data.size());
    }
  }

  void summarise(const std::string& path, std::uint64_t bytes) const {
    if (is_standard_stream(path) || flags_.output.quiet) return;
    print(formatted("{}: {} bytes\n", printable(path), with_separators(bytes)));
  }

  const DecompressFlags& flags_;
  DecompressOptions options_;
  OutputNames names_;
  bool is_loss_noted_ = false;
};

int run(const DecompressFlags& flags) {
  const InputSet inputs = find_inputs(flags.files, frame_endings());
  Decompression decompression(flags, inputs);
  return for_each_file(inputs, [&](const InputFile& file) { decompression.decompress_file(file); });
}

}  // namespace

void add_decompress(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand("decompress", "Restore files, or tensors of a file");
  const auto flags = std::make_shared<DecompressFlags>();
  add_files(*command, flags->files, "Files, folders (all .gw in them), - for stdin");
  add_output_flags(*command, flags->output);
  command->add_option("--tensor", flags->tensor, "Only the tensor of this name, as raw or .npy");
  command->add_option("--range", flags->range, "Only elements A:B of it (row-major)");
  add_decode_flags(*command, flags->decode);
  when_chosen(*command, exit_code, [flags] { return run(*flags); });
}

}  // namespace gradwire::cli
