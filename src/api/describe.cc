// Words for what a tensor's header says.

#include <algorithm>
#include <array>

#include "api/frame_access.h"
#include "base/fail.h"
#include "base/float_format.h"
#include "lossless/side_info.h"
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

}  // namespace

TensorInfo describe(const lossless::TensorDecoder& decoder, std::uint64_t compressed_bytes) {
  const frame::TensorBody& body = decoder.body();
  constexpr const char* kPipelines[] = {"planes", "scaled", "kernels"};
  TensorInfo info;
  info.dtype = body.header.dtype;
  info.shape = body.header.dims;
  info.elements = body.header.elements;
  info.original_bytes = body.header.bytes();
  info.compressed_bytes = compressed_bytes;
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

}  // namespace gradwire::api
