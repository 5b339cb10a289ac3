// gradwire compress: source files to .gw files.
#include <memory>
#include <utility>

#include "command.h"
#include "errors.h"
#include "formatted.h"
#include "gradwire/lossy.h"
#include "gradwire/methods.h"
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
  std::string method = "lossless";
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
        is_lossy_(is_lossy_method(flags.method)),
        raw_(raw_layout(flags.raw)),
        names_(flags.output.output, inputs) {
    if (is_lossy_) {
      canonical_method(flags.method);  // a wrong one is one error, not one a tensor
    } else {
      options_ = parse_method(flags.method, options_);
    }
  }

  void compress_file(const InputFile& file) {
    const InputBytes input(file.path);
    const Source source = read_source(file.path, input.bytes(), raw_);
    OutputFile output(names_.next(file, compressed_name(file)), flags_.output.force, input.mode());
    const bool is_stdout = is_standard_stream(output.path());
    check_removal(file, is_stdout);
    LossyReport loss;
    const std::vector<std::uint8_t> frame = encode(source, file, input, loss);
    output.write(frame);
    output.commit();
    if (flags_.output.remove) remove_input(file.path);
    if (!is_stdout && !flags_.output.quiet) {
      summarise(file, output.path(), input.bytes().size(), frame.size());
      if (is_lossy_) print(loss_text(loss));
    }
  }

 private:
  void check_removal(const InputFile& file, bool is_stdout) const {
    if (!flags_.output.remove || (!is_stdout && !is_standard_stream(file.path))) return;
    fail(ErrorKind::invalid_argument, "--rm needs a file as input and a file as output");
  }

  std::vector<std::uint8_t> encode(const Source& source, const InputFile& file,
                                   const InputBytes& input, LossyReport& loss) const {
    std::uint64_t total = 0;
    for (const SourceTensor& tensor : source.tensors) total += tensor.data.size();
    Progress progress(shown_input(file.path), total, flags_.output.quiet);
    ArchiveWriter writer(options_);
    writer.set_source(source.kind, source.header);
    for (const SourceTensor& tensor : source.tensors) {
      add(writer, tensor, loss);
      input.forget(tensor.data);  // finish() needs memory for a second copy of the output
      progress.advance(tensor.data.size());
    }
    return writer.finish();
  }

  void add(ArchiveWriter& writer, const SourceTensor& tensor, LossyReport& loss) const {
    if (!is_lossy_) return writer.add(tensor.name, tensor.view());
    LossyReport report;
    writer.add_lossy(tensor.name, tensor.view(), flags_.method, &report);
    loss.add(report);
  }

  std::string loss_text(const LossyReport& loss) const {
    if (loss.selected == loss.elements && loss.largest_error == 0) {
      return formatted(
          "  {}: no value has changed; the method may send tensors like these exactly "
          "(dense_vectors, dense_below, start)\n",
          canonical_method(flags_.method));
    }
    return formatted(
        "  {}: share of elements sent {}, relative L2 error {:.4g}, largest error {:.4g}, share of "
        "signs kept {:.4f}\n",
        canonical_method(flags_.method),
        fraction_text(static_cast<double>(loss.selected), static_cast<double>(loss.elements)),
        loss.relative_l2, loss.largest_error, loss.sign_agreement);
  }

  static void summarise(const InputFile& file, const std::string& output, std::size_t before,
                        std::size_t after) {
    print(formatted("{} -> {}: {} -> {} bytes, size fraction {}\n",
                    printable(shown_input(file.path)), printable(output), with_separators(before),
                    with_separators(after),
                    fraction_text(static_cast<double>(after), static_cast<double>(before))));
  }

  const CompressFlags& flags_;
  CompressOptions options_;  ///< with a lossy method, of tensors that go exactly
  bool is_lossy_;
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
  command
      ->add_option("--method", flags->method,
                   "lossless, none, or a lossy one such as \"topk(keep=0.01)\"; gradwire methods "
                   "lists them")
      ->type_name("SPEC")
      ->capture_default_str();
  add_codec_flags(*command, flags->codec);
  add_raw_flags(*command, flags->raw);
  when_chosen(*command, exit_code, [flags] { return run(*flags); });
}

}  // namespace gradwire::cli
