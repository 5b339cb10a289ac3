// gradwire bench: speed and size of the tensors of files, in memory.
#include <algorithm>
#include <memory>
#include <utility>

#include <nlohmann/json.hpp>

#include "command.h"
#include "errors.h"
#include "formatted.h"
#include "input_bytes.h"
#include "options.h"
#include "paths.h"
#include "speed.h"
#include "text.h"

namespace gradwire::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kGiga = 1e9;

struct BenchFlags {
  std::vector<std::string> files;
  CodecFlags codec;
  RawFlags raw;
  int runs = 5;
  std::string repeat_to;
  bool as_json = false;
};

struct FileSpeed {
  std::string name;
  std::size_t tensors = 0;
  Speed speed;
};

/// The flags, read once: a wrong one is one error, not one a file.
struct Task {
  explicit Task(const BenchFlags& flags)
      : options(compress_options(flags.codec)), raw(raw_layout(flags.raw)), runs(flags.runs) {
    if (!flags.repeat_to.empty()) least_bytes = parse_byte_count(flags.repeat_to);
  }

  FileSpeed measure_file(const InputFile& file) const {
    const InputBytes input(file.path);
    const Source source = read_source(file.path, input.bytes(), raw);
    const std::vector<SourceTensor> tensors = repeated(source.tensors, least_bytes);
    return {shown_input(file.path), tensors.size(), measure(tensors, options, runs)};
  }

  CompressOptions options;
  RawLayout raw;
  int runs;
  std::uint64_t least_bytes = 0;
};

FileSpeed total_of(const std::vector<FileSpeed>& files) {
  FileSpeed total{"total", 0, {}};
  for (const FileSpeed& file : files) {
    total.tensors += file.tensors;
    total.speed.original_bytes += file.speed.original_bytes;
    total.speed.compressed_bytes += file.speed.compressed_bytes;
    total.speed.compress_s += file.speed.compress_s;
    total.speed.decompress_s += file.speed.decompress_s;
  }
  return total;
}

double bytes_per_s(std::uint64_t bytes, double seconds) {
  return seconds > 0 ? static_cast<double>(bytes) / seconds : 0;
}

void add_row(TextTable& table, const FileSpeed& file, double memcpy_bytes_per_s) {
  const Speed& speed = file.speed;
  const double compress = bytes_per_s(speed.original_bytes, speed.compress_s);
  const double decompress = bytes_per_s(speed.original_bytes, speed.decompress_s);
  table.add({printable(file.name), std::to_string(file.tensors),
             with_separators(speed.original_bytes), with_separators(speed.compressed_bytes),
             fraction_text(static_cast<double>(speed.compressed_bytes),
                           static_cast<double>(speed.original_bytes)),
             formatted("{:.3f}", compress / kGiga), fraction_text(compress, memcpy_bytes_per_s),
             formatted("{:.3f}", decompress / kGiga),
             fraction_text(decompress, memcpy_bytes_per_s)});
}

std::string text_of(const std::vector<FileSpeed>& files, double memcpy_bytes_per_s, int threads) {
  TextTable table("lrrrrrrrr");
  table.add({"file", "tensors", "bytes", "compressed", "size", "compress GB/s", "of memcpy",
             "decompress GB/s", "of memcpy"});
  for (const FileSpeed& file : files) add_row(table, file, memcpy_bytes_per_s);
  if (files.size() > 1) add_row(table, total_of(files), memcpy_bytes_per_s);
  return formatted("memcpy of 64 MiB, {} thread{}: {:.2f} GB/s\n{}", threads,
                   threads == 1 ? "" : "s", memcpy_bytes_per_s / kGiga, table.text());
}

Json json_of(const FileSpeed& file, double memcpy_bytes_per_s) {
  const Speed& speed = file.speed;
  const double compress = bytes_per_s(speed.original_bytes, speed.compress_s);
  const double decompress = bytes_per_s(speed.original_bytes, speed.decompress_s);
  return {{"file", file.name},
          {"tensors", file.tensors},
          {"original_bytes", speed.original_bytes},
          {"compressed_bytes", speed.compressed_bytes},
          {"size_fraction", speed.original_bytes == 0
                                ? Json()
                                : Json(static_cast<double>(speed.compressed_bytes) /
                                       static_cast<double>(speed.original_bytes))},
          {"compress_bytes_per_s", compress},
          {"compress_of_memcpy", compress / memcpy_bytes_per_s},
          {"decompress_bytes_per_s", decompress},
          {"decompress_of_memcpy", decompress / memcpy_bytes_per_s}};
}

std::string json_text(const std::vector<FileSpeed>& files, double memcpy_bytes_per_s,
                      const BenchFlags& flags) {
  Json json = {{"version", GRADWIRE_VERSION},
               {"level", flags.codec.level},
               {"coder", flags.codec.coder},
               {"tables", flags.codec.tables},
               {"checksum", !flags.codec.no_checksum},
               {"threads", thread_count(flags.codec.threads)},
               {"runs", flags.runs},
               {"memcpy_bytes_per_s", memcpy_bytes_per_s},
               {"files", Json::array()}};
  for (const FileSpeed& file : files) json["files"].push_back(json_of(file, memcpy_bytes_per_s));
  json["total"] = json_of(total_of(files), memcpy_bytes_per_s);
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

int run(const BenchFlags& flags) {
  constexpr int kLeastMemcpyRuns = 5;
  const Task task(flags);
  const InputSet inputs = find_inputs(flags.files, source_endings());
  const int threads = task.options.threads;
  const double memcpy_bytes_per_s = memcpy_speed(threads, std::max(flags.runs, kLeastMemcpyRuns));
  std::vector<FileSpeed> files;
  const int code = for_each_file(
      inputs, [&](const InputFile& file) { files.push_back(task.measure_file(file)); });
  if (files.empty()) return code;
  print(flags.as_json ? json_text(files, memcpy_bytes_per_s, flags)
                      : text_of(files, memcpy_bytes_per_s, threads));
  return code;
}

}  // namespace

void add_bench(CLI::App& app, int& exit_code) {
  constexpr int kMostRuns = 10000;
  CLI::App* const command =
      app.add_subcommand("bench", "Measure speed and size in memory, beside memcpy");
  const auto flags = std::make_shared<BenchFlags>();
  add_files(*command, flags->files,
            "Files, folders (all .safetensors and .npy in them), - for stdin");
  command->add_option("--runs", flags->runs, "Runs, of which the best counts")
      ->check(CLI::Range(1, kMostRuns))
      ->capture_default_str();
  command->add_option("--repeat-to", flags->repeat_to,
                      "Repeat the tensors of a file up to this size, such as 64M");
  command->add_flag("--json", flags->as_json, "JSON on stdout");
  add_codec_flags(*command, flags->codec);
  add_raw_flags(*command, flags->raw);
  when_chosen(*command, exit_code, [flags] { return run(*flags); });
}

}  // namespace gradwire::cli
