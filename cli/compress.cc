// gradwire compress: source files to .gw files.
#include <memory>
#include <utility>

#include "command.h"
#include "errors.h"
#include "formatted.h"
#include "input_bytes.h"
#include "options.h"
#include "output_file.h"
#include "paths.h"
#include "progress.h"
#include "text.h"

namespace gradwire::cli {
namespace {

struct CompressFlags {
  std::vector<std::string> files;
  CodecFlags codec;
  RawFlags raw;
  OutputFlags output;
};

/// One call of the command.
class Compression {
 public:
  Compression(const CompressFlags& flags, const InputSet& inputs)
      : flags_(flags),
        options_(compress_options(flags.codec)),
        raw_(raw_layout(flags.raw)),
        names_(flags.output.output, inputs) {}

  void compress_file(const InputFile& file) {
    const InputBytes input(file.path);
    const Source source = read_source(file.path, input.bytes(), raw_);
    OutputFile output(names_.next(file, compressed_name(file)), flags_.output.force, input.mode());
    const bool is_stdout = is_standard_stream(output.path());
    check_removal(file, is_stdout);
    const std::vector<std::uint8_t> frame = encode(source, file, input);
    output.write(frame);
    output.commit();
    if (flags_.output.remove) remove_input(file.path);
    if (!is_stdout && !flags_.output.quiet) {
      summarise(file, output.path(), input.bytes().size(), frame.size());
    }
  }

 private:
  void check_removal(const InputFile& file, bool is_stdout) const {
    if (!flags_.output.remove || (!is_stdout && !is_standard_stream(file.path))) return;
    fail(ErrorKind::invalid_argument, "--rm needs a file as input and a file as output");
  }

  std::vector<std::uint8_t> encode(const Source& source, const InputFile& file,
                                   const InputBytes& input) const {
    std::uint64_t total = 0;
    for (const SourceTensor& tensor : source.tensors) total += tensor.data.size();
    Progress progress(shown_input(file.path), total, flags_.output.quiet);
    ArchiveWriter writer(options_);
    writer.set_source(source.kind, source.header);
    for (const SourceTensor& tensor : source.tensors) {
      writer.add(tensor.name, tensor.view());
      input.forget(tensor.data);  // finish() needs memory for a second copy of the output
      progress.advance(tensor.data.size());
    }
    return writer.finish();
  }

  static void summarise(const InputFile& file, const std::string& output, std::size_t before,
                        std::size_t after) {
    print(formatted("{} -> {}: {} -> {} bytes, size fraction {}\n",
                    printable(shown_input(file.path)), printable(output), with_separators(before),
                    with_separators(after),
                    fraction_text(static_cast<double>(after), static_cast<double>(before))));
  }

  const CompressFlags& flags_;
  CompressOptions options_;
  RawLayout raw_;
  OutputNames names_;
};

int run(const CompressFlags& flags) {
  const InputSet inputs = find_inputs(flags.files, source_endings());
  Compression compression(flags, inputs);
  return for_each_file(inputs, [&](const InputFile& file) { compression.compress_file(file); });
}

}  // namespace

void add_compress(CLI::App& app, int& exit_code) {
  CLI::App* const command =
      app.add_subcommand("compress", "Compress .safetensors, .npy and raw files");
  const auto flags = std::make_shared<CompressFlags>();
  add_files(*command, flags->files,
            "Files, folders (all .safetensors and .npy in them), - for stdin");
  add_output_flags(*command, flags->output);
  add_codec_flags(*command, flags->codec);
  add_raw_flags(*command, flags->raw);
  when_chosen(*command, exit_code, [flags] { return run(*flags); });
}

}  // namespace gradwire::cli
