#include "options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <thread>

#include "errors.h"
#include "formatted.h"

namespace gradwire::cli {
namespace {

constexpr int kMostThreads = 1024;

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

Zeros parse_zeros(const std::string& name) {
  constexpr std::array<std::pair<std::string_view, Zeros>, 5> kNames{{
      {"auto", Zeros::automatic},
      {"none", Zeros::none},
      {"in-band", Zeros::in_band},
      {"runs", Zeros::runs},
      {"bitmap", Zeros::bitmap},
  }};
  for (const auto& [known, zeros] : kNames) {
    if (name == known) return zeros;
  }
  fail(ErrorKind::invalid_argument,
       formatted("--zeros {}: auto, none, in-band, runs or bitmap is wanted", printable(name)));
}

void add_threads(CLI::App& command, int& threads) {
  command.add_option("--threads", threads, "Threads, 0 for all cores; the bytes stay the same")
      ->check(CLI::Range(0, kMostThreads))
      ->capture_default_str();
}

}  // namespace

void add_codec_flags(CLI::App& command, CodecFlags& flags, bool with_tables) {
  command.add_option("--level", flags.level, "Effort: 1, 2 or 3")
      ->check(CLI::Range(1, 3))
      ->capture_default_str();
  command.add_option("--coder", flags.coder, "auto, huffman, ans or stored")->capture_default_str();
  if (with_tables) {
    command.add_option("--tables", flags.tables, "Code tables: hybrid, dynamic, static or gennorm")
        ->capture_default_str();
  }
  command.add_flag("--no-checksum", flags.no_checksum, "Leave the checksums out");
  add_threads(command, flags.threads);
  const std::string study = "For study";
  command.add_option("--zeros", flags.zeros, "auto, none, in-band, runs or bitmap")
      ->capture_default_str()
      ->group(study);
  command.add_flag("--no-pairs", flags.no_pairs, "No joint codes of neighbours")->group(study);
}

CompressOptions compress_options(const CodecFlags& flags) {
  CompressOptions options;
  options.level = flags.level;
  options.coder = parse_coder(flags.coder);
  options.tables = parse_tables(flags.tables);
  options.zeros = parse_zeros(flags.zeros);
  options.pairs = !flags.no_pairs;
  options.checksum = !flags.no_checksum;
  options.threads = thread_count(flags.threads);
  return options;
}

void add_raw_flags(CLI::App& command, RawFlags& flags) {
  CLI::Option* const dtype = command.add_option(
      "--dtype", flags.dtype, "Element type of files that are neither .safetensors nor .npy");
  command.add_option("--shape", flags.shape, "Their shape, such as 10,20; else one dimension")
      ->needs(dtype);
}

RawLayout raw_layout(const RawFlags& flags) {
  RawLayout layout;
  if (!flags.dtype.empty()) layout.dtype = parse_dtype(flags.dtype);
  if (!flags.shape.empty()) layout.shape = parse_shape(flags.shape);
  return layout;
}

void add_decode_flags(CLI::App& command, DecodeFlags& flags) {
  add_threads(command, flags.threads);
  command.add_option("--max-output", flags.max_output,
                     "Most bytes to restore, such as 2G; else 1G or 64 times the input");
}

DecompressOptions decompress_options(const DecodeFlags& flags) {
  DecompressOptions options;
  options.threads = thread_count(flags.threads);
  if (!flags.max_output.empty()) options.max_output = parse_byte_count(flags.max_output);
  if (!flags.max_output.empty() && options.max_output == 0) {
    fail(ErrorKind::invalid_argument, "--max-output must be at least 1 byte");
  }
  return options;
}

void add_output_flags(CLI::App& command, OutputFlags& flags) {
  command.add_option("-o,--output", flags.output, "A file, a folder, or - for stdout");
  command.add_flag("-f,--force", flags.force, "Overwrite files; write to a terminal");
  CLI::Option* const keep = command.add_flag("-k,--keep", flags.keep, "Keep the inputs (default)");
  command.add_flag("--rm", flags.remove, "Remove each input once its output is on disk")
      ->excludes(keep);
  command.add_flag("-q,--quiet", flags.quiet, "Print errors only");
}

void add_files(CLI::App& command, std::vector<std::string>& files, const std::string& meaning) {
  command.add_option("FILES", files, meaning)->required()->type_name("");
}

int thread_count(int threads) {
  if (threads > 0) return threads;
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMostThreads);
}

std::uint64_t parse_byte_count(const std::string& text) {
  constexpr std::string_view kUnits = "KMGT";
  constexpr double kMost = 4.0e18;
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (unit.ends_with('B')) unit.remove_suffix(1);
  if (unit.ends_with('i')) unit.remove_suffix(1);
  const std::size_t power = unit.empty() ? 0 : kUnits.find(unit) + 1;
  for (std::size_t i = 0; i < power && power <= kUnits.size(); ++i) number *= 1024;
  const bool is_number = error == std::errc() && number >= 0 && number <= kMost;
  if (!is_number || unit.size() > 1 || (!unit.empty() && power == 0)) {
    fail(ErrorKind::invalid_argument,
         formatted("'{}' is no size; write bytes, or 64K, 1.5M, 2G", printable(text)));
  }
  return static_cast<std::uint64_t>(number);
}

std::vector<std::uint64_t> parse_shape(const std::string& text) {
  std::vector<std::uint64_t> shape;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const auto dimension = parse_number(std::string_view(text).substr(begin, end - begin));
    if (!dimension) {
      fail(ErrorKind::invalid_argument,
           formatted("--shape {}: whole numbers with commas between are wanted, such as 10,20",
                     printable(text)));
    }
    shape.push_back(*dimension);
    begin = end + 1;
  }
  if (shape.size() > kMostDimensions) {
    fail(ErrorKind::invalid_argument, formatted("--shape has {} dimensions, at most {} are allowed",
                                                shape.size(), kMostDimensions));
  }
  return shape;
}

std::pair<std::uint64_t, std::uint64_t> parse_range(const std::string& text, std::uint64_t count) {
  const std::size_t colon = text.find(':');
  const std::string_view view = text;
  std::optional<std::uint64_t> first = 0;
  std::optional<std::uint64_t> last = count;
  if (colon == std::string::npos) first.reset();
  if (colon != std::string::npos && colon > 0) first = parse_number(view.substr(0, colon));
  if (colon != std::string::npos && colon + 1 < text.size()) {
    last = parse_number(view.substr(colon + 1));
  }
  if (!first || !last) {
    fail(ErrorKind::invalid_argument,
         formatted("--range {}: A:B is wanted, elements A to B - 1", printable(text)));
  }
  if (*first > *last || *last > count) {
    fail(ErrorKind::invalid_argument,
         formatted("--range {}: the tensor has elements 0:{}", printable(text), count));
  }
  return {*first, *last};
}

}  // namespace gradwire::cli
