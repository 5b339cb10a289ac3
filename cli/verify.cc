// gradwire verify: decode everything, write nothing.
#include <algorithm>
#include <memory>

#include "command.h"
#include "errors.h"
#include "formatted.h"
#include "frame_file.h"
#include "input_bytes.h"
#include "options.h"
#include "paths.h"
#include "progress.h"
#include "text.h"

namespace gradwire::cli {
namespace {

struct VerifyFlags {
  std::vector<std::string> files;
  DecodeFlags decode;
  bool quiet = false;
};

void verify_file(const InputFile& file, const VerifyFlags& flags,
                 const DecompressOptions& options) {
  const InputBytes input(file.path);
  const FrameFile frame(input.bytes(), options);
  const std::uint64_t total = frame.header().size() + frame.data_bytes();
  frame.check_budget(total);
  Progress progress(shown_input(file.path), total, flags.quiet);
  bool has_checksums = true;
  std::vector<std::uint8_t> data;
  for (std::size_t i = 0; i < frame.size(); ++i) {
    frame.read(i, data);
    has_checksums = has_checksums && frame.info(i).checksums;
    progress.advance(data.size());
  }
  if (flags.quiet) return;
  print(formatted("{}: ok, {} tensors, {} bytes, {}\n", printable(shown_input(file.path)),
                  frame.size(), with_separators(total),
                  has_checksums ? "checksums agree" : "decodes, but carries no checksums"));
}

}  // namespace

void add_verify(CLI::App& app, int& exit_code) {
  CLI::App* const command =
      app.add_subcommand("verify", "Decode files and compare checksums, write nothing");
  const auto flags = std::make_shared<VerifyFlags>();
  add_files(*command, flags->files, "Files, folders (all .gw in them), - for stdin");
  add_decode_flags(*command, flags->decode);
  command->add_flag("-q,--quiet", flags->quiet, "Print errors only");
  when_chosen(*command, exit_code, [flags] {
    const DecompressOptions options = decompress_options(flags->decode);
    return for_each_file(find_inputs(flags->files, frame_endings()),
                         [&](const InputFile& file) { verify_file(file, *flags, options); });
  });
}

}  // namespace gradwire::cli
