// Words for what a tensor's header says.

#include <algorithm>
#include <array>

#include "api/open_tensor.h"
#include "base/fail.h"
#include "base/float_format.h"
#include "lossless/side_info.h"
#include "lossless/tensor_decoder.h"
#include "stages/entropy/gennorm.h"

namespace gradwire::api {
namespace {

using frame::Pipeline;

std::string describe_gennorm(const entropy::GennormParameters& parameters) {
  constexpr std::array kMore{"", ", mean", ", mixture"};  // by bytes
  return formatted(" gennorm(shape={:.2f}{})", entropy::gennorm_shape(parameters.shape),
                   kMore[entropy::gennorm_more_bytes(parameters.shape)]);
}

std::string describe_tables(const std::vector<entropy::Table>& tables) {
  std::string text;
  for (const entropy::Table& table : tables) {
    if (!text.empty()) text += ", ";
    text += table.coder == entropy::CoderId::ans ? "ans" : "huffman";
    if (table.source == entropy::Source::dynamic) text += " dynamic";
    if (table.source == entropy::Source::fixed) text += formatted(" static {}", table.static_id);
    if (table.source == entropy::Source::gennorm) {
      text += describe_gennorm(table.gennorm);
    }
    if (table.pairs) text += " pairs";
  }
  return text.empty() ? "none" : text;
}

std::string describe_prediction(const lossless::TensorDecoder& decoder) {
  const frame::TensorHeader& header = decoder.body().header;
  if (header.pipeline == Pipeline::planes) return "none";
  if (header.pipeline == Pipeline::kernels)
    return formatted("taps(a={})", static_cast<int>(decoder.taps().effort) - 1);
  const ScaledParameters& p = header.scaled;
  std::string text =
      p.has_scales ? formatted("rows+columns/{}", p.halved ? 2u << p.step_log2 : 1u << p.step_log2)
                   : "constant";
  if (p.sign_mode == SignMode::tap) text += "+tap";
  return text;
}

std::string describe_signs(const frame::TensorHeader& header) {
  if (header.pipeline == Pipeline::planes) return "raw";
  if (header.pipeline == Pipeline::kernels) return "guess";
  constexpr const char* kNames[] = {"raw", "rank_one", "tap"};
  return kNames[static_cast<std::size_t>(header.scaled.sign_mode)];
}

std::string describe_zeros(const lossless::TensorDecoder& decoder) {
  std::string text;
  const auto add = [&](const char* word) { text += text.empty() ? word : formatted("+{}", word); };
  if (!decoder.grid().row_dead.empty()) add("rows");
  if (!decoder.grid().column_dead.empty()) add("columns");
  if (decoder.body().header.pipeline == Pipeline::scaled && decoder.body().header.scaled.has_zero)
    add("in-band");
  const auto& index = decoder.body().index;
  const bool mapped = std::any_of(index.begin(), index.end(), [](const frame::ChunkEntry& entry) {
    return entry.kind == frame::ChunkKind::mapped;
  });
  if (mapped) add("map");
  return text.empty() ? "none" : text;
}

std::string describe_fractions(const frame::TensorHeader& header) {
  if (header.pipeline == Pipeline::planes) return "planes";
  const bool kernels = header.pipeline == Pipeline::kernels;
  const unsigned kept = kernels ? header.kernels.kept : header.scaled.kept;
  const bool counted = kernels ? header.kernels.counted : header.scaled.counted;
  return formatted("{} of {} bits{}", kept, float_format(header.dtype).fraction_bits,
                   counted ? ", counted" : "");
}

std::string describe_selection(const lossy::Body& body) {
  constexpr const char* kNames[] = {"none", "flags", "gaps", "drawn"};
  const char* const name = kNames[static_cast<std::size_t>(body.selection)];
  if (body.selection == lossy::Selection::all) return name;
  return formatted(
      "{}, {:.4g} % kept", name,
      100.0 * static_cast<double>(body.selected) / static_cast<double>(body.header.elements));
}

std::string describe_rule(const lossy::ValueRule& rule) {
  using lossy::ValueForm;
  std::string text(dtype_name(rule.dtype));
  if (rule.form == ValueForm::levels) text = formatted("levels {}", rule.levels);
  if (rule.form == ValueForm::table) text = formatted("table of {}", rule.table.size());
  if (!rule.has_scales()) return text;
  return text + (rule.bucket == 0 ? ", one scale" : formatted(", buckets of {}", rule.bucket));
}

/// How the values' packed array lies there.
std::string describe_values(const frame::Span& values) {
  if (values.bytes.empty()) return "none";
  return values.bytes[0] == 0 ? "stored" : "coded";
}

}  // namespace

TensorInfo describe(const frame::TensorBody& body) {
  constexpr const char* kPipelines[] = {"planes", "scaled", "kernels"};
  const lossless::TensorDecoder decoder(body, false);
  TensorInfo info;
  info.pipeline = kPipelines[static_cast<std::size_t>(body.header.pipeline)];
  info.prediction = describe_prediction(decoder);
  info.signs = describe_signs(body.header);
  info.zeros = describe_zeros(decoder);
  info.fractions = describe_fractions(body.header);
  info.tables = describe_tables(decoder.tables());
  info.chunks = body.index.size();
  for (const frame::ChunkEntry& entry : body.index) {
    info.constant_chunks += entry.kind == frame::ChunkKind::constant;
    info.stored_chunks += entry.kind == frame::ChunkKind::stored;
  }
  info.checksums = body.checksums;
  return info;
}

TensorInfo describe(const lossy::Body& body) {
  TensorInfo info;
  info.pipeline = "lossy";
  info.prediction = "none";
  info.signs = "in values";
  info.zeros = describe_selection(body);
  info.fractions = body.selected == 0 ? "none" : describe_rule(body.rule);
  info.tables = describe_values(body.sections[frame::Section::values]);
  info.checksums = body.is_checked;
  return info;
}

}  // namespace gradwire::api
