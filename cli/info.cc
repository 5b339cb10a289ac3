// gradwire info: what stands in files, and what was chosen in each stage.
#include <memory>
#include <utility>

#include <nlohmann/json.hpp>

#include "command.h"
#include "errors.h"
#include "file_report.h"
#include "formatted.h"
#include "input_bytes.h"
#include "options.h"
#include "paths.h"
#include "text.h"

namespace gradwire::cli {
namespace {

using Json = nlohmann::ordered_json;

struct InfoFlags {
  std::vector<std::string> files;
  DecodeFlags decode;
  RawFlags raw;
  bool as_json = false;
  bool headers_only = false;
};

FileReport report_file(const InputFile& file, const DecompressOptions& options,
                       const RawLayout& raw, bool with_values) {
  const InputBytes input(file.path);
  const std::span<const std::uint8_t> bytes = input.bytes();
  FileReport report = looks_like_frame(bytes) ? report_frame(bytes, options, with_values)
                                              : report_source(read_source(file.path, bytes, raw),
                                                              bytes.size(), with_values);
  report.name = shown_input(file.path);
  return report;
}

// --- for people ----------------------------------------------------------------

std::string share_text(const std::optional<ValueReport>& values, double ValueReport::* member) {
  return values ? formatted("{:.4f}", (*values).*member) : "-";
}

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

std::string chunk_text(const TensorInfo& info) {
  std::string text = std::to_string(info.chunks);
  if (info.constant_chunks > 0) text += formatted(", {} constant", info.constant_chunks);
  if (info.stored_chunks > 0) text += formatted(", {} stored", info.stored_chunks);
  return text;
}

std::vector<std::string> row_of(const TensorReport& tensor, bool is_compressed) {
  const TensorInfo& info = tensor.info;
  std::vector<std::string> row = {printable(info.name),
                                  std::string(dtype_name(info.dtype)),
                                  shape_text(info.shape),
                                  with_separators(info.original_bytes),
                                  share_text(tensor.values, &ValueReport::zero_share),
                                  share_text(tensor.values, &ValueReport::order0_bound)};
  if (!is_compressed) return row;
  row.push_back(fraction_text(static_cast<double>(info.compressed_bytes),
                              static_cast<double>(info.original_bytes)));
  for (const std::string* stage : {&info.pipeline, &info.prediction, &info.signs, &info.zeros,
                                   &info.fractions, &info.tables}) {
    row.push_back(or_dash(*stage));
  }
  row.push_back(chunk_text(info));
  return row;
}

std::string text_of(const FileReport& report) {
  TextTable table(report.is_compressed ? "lllrrrrlllllll" : "lllrrr");
  std::vector<std::string> heading = {"tensor", "dtype", "shape", "bytes", "zeros", "H0"};
  if (report.is_compressed) {
    heading.insert(heading.end(), {"size", "pipeline", "prediction", "signs", "zeros by",
                                   "fractions", "tables", "chunks"});
  }
  table.add(heading);
  for (const TensorReport& tensor : report.tensors) {
    table.add(row_of(tensor, report.is_compressed));
  }
  const std::optional<ValueReport> mean = report.mean();
  std::vector<std::string> total = {formatted("total, {} tensors", report.tensors.size()),
                                    "",
                                    "",
                                    with_separators(report.original_bytes()),
                                    share_text(mean, &ValueReport::zero_share),
                                    share_text(mean, &ValueReport::order0_bound)};
  if (report.is_compressed) {
    total.push_back(fraction_text(static_cast<double>(report.file_bytes),
                                  static_cast<double>(report.original_bytes())));
  }
  table.add(total);
  return formatted("{}: {} bytes, source {} with a header of {} bytes\n{}", printable(report.name),
                   with_separators(report.file_bytes), source_kind_name(report.kind),
                   with_separators(report.source_header_bytes), table.text());
}

// --- for programs --------------------------------------------------------------

Json fraction_json(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return nullptr;
  return static_cast<double>(part) / static_cast<double>(whole);
}

void add_values(Json& json, const std::optional<ValueReport>& values) {
  json["zero_share"] = values ? Json(values->zero_share) : Json();
  json["order0_bound"] = values ? Json(values->order0_bound) : Json();
}

Json json_of(const TensorReport& tensor, bool is_compressed) {
  const TensorInfo& info = tensor.info;
  Json json = {{"name", info.name},
               {"dtype", dtype_name(info.dtype)},
               {"shape", info.shape},
               {"elements", info.elements},
               {"original_bytes", info.original_bytes}};
  add_values(json, tensor.values);
  if (!is_compressed) return json;
  json["compressed_bytes"] = info.compressed_bytes;
  json["size_fraction"] = fraction_json(info.compressed_bytes, info.original_bytes);
  json["pipeline"] = info.pipeline;
  json["prediction"] = info.prediction;
  json["signs"] = info.signs;
  json["zeros"] = info.zeros;
  json["fractions"] = info.fractions;
  json["tables"] = info.tables;
  json["chunks"] = info.chunks;
  json["constant_chunks"] = info.constant_chunks;
  json["stored_chunks"] = info.stored_chunks;
  json["checksums"] = info.checksums;
  return json;
}

Json json_of(const FileReport& report) {
  Json json = {{"file", report.name},
               {"file_bytes", report.file_bytes},
               {"source", source_kind_name(report.kind)},
               {"source_header_bytes", report.source_header_bytes},
               {"original_bytes", report.original_bytes()}};
  if (report.is_compressed) {
    json["size_fraction"] = fraction_json(report.file_bytes, report.original_bytes());
  }
  add_values(json, report.mean());
  json["tensors"] = Json::array();
  for (const TensorReport& tensor : report.tensors) {
    json["tensors"].push_back(json_of(tensor, report.is_compressed));
  }
  return json;
}

int run(const InfoFlags& flags) {
  constexpr int kIndent = 1;
  const DecompressOptions options = decompress_options(flags.decode);
  const RawLayout raw = raw_layout(flags.raw);
  const InputSet inputs = find_inputs(flags.files, frame_endings());
  Json files = Json::array();
  const int code = for_each_file(inputs, [&](const InputFile& file) {
    const FileReport report = report_file(file, options, raw, !flags.headers_only);
    if (flags.as_json) {
      files.push_back(json_of(report));
    } else {
      print(text_of(report));
    }
  });
  if (flags.as_json) {
    print(Json{{"files", files}}.dump(kIndent, ' ', false, Json::error_handler_t::replace) + "\n");
  }
  return code;
}

}  // namespace

void add_info(CLI::App& app, int& exit_code) {
  CLI::App* const command =
      app.add_subcommand("info", "Show the tensors of files and how each was compressed");
  const auto flags = std::make_shared<InfoFlags>();
  add_files(*command, flags->files,
            "Files (.gw, or what compress takes), folders (all .gw in them), - for stdin");
  command->add_flag("--json", flags->as_json, "JSON on stdout");
  command->add_flag("--headers", flags->headers_only,
                    "Read headers only: no decoding, no share of zeros, no H0");
  add_decode_flags(*command, flags->decode);
  add_raw_flags(*command, flags->raw);
  when_chosen(*command, exit_code, [flags] { return run(*flags); });
}

}  // namespace gradwire::cli
