// gradwire train-tables: prebuilt code tables from the tensors of files.
#include <filesystem>
#include <memory>
#include <utility>

#include "command.h"
#include "errors.h"
#include "formatted.h"
#include "gradwire/tables.h"
#include "input_bytes.h"
#include "options.h"
#include "output_file.h"
#include "paths.h"
#include "progress.h"
#include "text.h"

namespace gradwire::cli {
namespace {

struct TrainFlags {
  std::vector<std::string> files;
  unsigned tables = 8;
  CodecFlags codec;
  RawFlags raw;
  OutputFlags output;
};

/// Adds the tensors of a file to the trainer; returns the line about it in the provenance.
std::string train_on(TableTrainer& trainer, const InputFile& file, const RawLayout& raw,
                     bool is_quiet) {
  const InputBytes input(file.path);
  const Source source = read_source(file.path, input.bytes(), raw);
  Progress progress(shown_input(file.path), input.bytes().size(), is_quiet);
  for (const SourceTensor& tensor : source.tensors) {
    trainer.add(tensor.view());
    progress.advance(tensor.data.size());
  }
  const std::string name = std::filesystem::path(shown_input(file.path)).filename().string();
  return formatted("  {} ({} tensors, {} bytes, XXH3-64 {:016x})\n", printable(name),
                   source.tensors.size(), with_separators(input.bytes().size()),
                   training_file_hash(input.bytes()));
}

int run(const TrainFlags& flags) {
  const RawLayout raw = raw_layout(flags.raw);
  const InputSet inputs = find_inputs(flags.files, source_endings());
  const std::string target = flags.output.output.empty() ? "-" : flags.output.output;
  TableTrainer trainer(compress_options(flags.codec));
  std::string provenance =
      formatted("gradwire {} train-tables --tables {} --level {} --coder {}\n", GRADWIRE_VERSION,
                flags.tables, flags.codec.level, flags.codec.coder);
  const int code = for_each_file(inputs, [&](const InputFile& file) {
    provenance += train_on(trainer, file, raw, flags.output.quiet);
  });
  if (code != kExitOk) return code;  // a family of other data than asked for would mislead
  const std::string family = trainer.family(flags.tables, provenance);
  if (is_standard_stream(target)) {
    print(family);
    return kExitOk;
  }
  OutputFile output(target, flags.output.force, std::nullopt);
  output.write({reinterpret_cast<const std::uint8_t*>(family.data()), family.size()});
  output.commit();
  return kExitOk;
}

}  // namespace

void add_train_tables(CLI::App& app, int& exit_code) {
  CLI::App* const command =
      app.add_subcommand("train-tables", "Build a family of prebuilt code tables from files");
  const auto flags = std::make_shared<TrainFlags>();
  add_files(*command, flags->files,
            "Files, folders (all .safetensors and .npy in them), - for stdin");
  command->add_option("--tables", flags->tables, "Tables an alphabet")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_option("-o,--output", flags->output.output, "A file; stdout if absent");
  command->add_flag("-f,--force", flags->output.force, "Overwrite the file");
  command->add_flag("-q,--quiet", flags->output.quiet, "No progress bar");
  add_codec_flags(*command, flags->codec, false);
  add_raw_flags(*command, flags->raw);
  when_chosen(*command, exit_code, [flags] { return run(*flags); });
}

}  // namespace gradwire::cli
