// ArchiveWriter and ArchiveReader of gradwire/frame.h.

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "api/frame_access.h"
#include "api/near_names.h"
#include "base/fail.h"
#include "frame/archive.h"
#include "gradwire/frame.h"
#include "lossless/tensor_encoder.h"
#include "stages/entropy/integer_array.h"

namespace gradwire {

struct ArchiveWriter::State {
  CompressOptions options;
  lossless::EncoderMemory memory;
  Bytes source, tensors;
  std::vector<frame::ArchiveEntry> entries;
  std::unordered_set<std::string> names;
};

ArchiveWriter::ArchiveWriter(const CompressOptions& options) : state_(std::make_unique<State>()) {
  api::check_options(options);
  state_->options = options;
}
ArchiveWriter::~ArchiveWriter() = default;

void ArchiveWriter::set_source(SourceKind kind, std::span<const std::uint8_t> header) {
  if (header.size() >= frame::kMaxSourceBytes) {
    fail(ErrorKind::invalid_argument, "source: {} bytes of header, at most {} allowed", header.size(), frame::kMaxSourceBytes - 1);
  }
  state_->source.clear();
  if (kind == SourceKind::none) return;
  ByteWriter out(state_->source);
  out.u8(static_cast<std::uint8_t>(kind));
  out.varint(header.size());
  entropy::write_bytes(header, out);
}

void ArchiveWriter::add(std::string_view name, const TensorView& tensor) {
  if (name.size() > frame::kMaxName) {
    fail(ErrorKind::invalid_argument, "name: {} bytes long, at most {} allowed", name.size(), frame::kMaxName);
  }
  api::check_tensor(tensor);
  if (!state_->names.insert(std::string(name)).second) {
    fail(ErrorKind::invalid_argument, "name '{}' was added before", name);
  }
  const std::size_t start = state_->tensors.size();
  lossless::encode_tensor(tensor, state_->options, true, state_->memory, state_->tensors);
  state_->entries.push_back({std::string(name), 0, state_->tensors.size() - start});
}

std::uint64_t ArchiveWriter::size() const { return state_->tensors.size(); }

std::vector<std::uint8_t> ArchiveWriter::finish() {
  return frame::write_archive(state_->source, state_->tensors, state_->entries, state_->options.checksum);
}

struct ArchiveReader::State {
  ByteSpan bytes;
  DecompressOptions options;
  std::uint64_t budget = 0;
  frame::Archive archive;
  std::vector<std::uint8_t> source;
  std::unordered_map<std::string_view, std::size_t> by_name;

  frame::TensorBody body(std::size_t index, std::uint64_t limit) const {
    const frame::ArchiveEntry& entry = archive.entries.at(index);
    const ByteSpan part = bytes.subspan(static_cast<std::size_t>(entry.offset), static_cast<std::size_t>(entry.length));
    return frame::read_tensor_body(part, 0, static_cast<std::size_t>(entry.offset), archive.checksums, limit);
  }
};

ArchiveReader::ArchiveReader(std::span<const std::uint8_t> frame, const DecompressOptions& options)
    : state_(std::make_unique<State>()) {
  state_->bytes = frame;
  state_->options = options;
  state_->budget = api::output_budget(options, frame.size());
  state_->archive = frame::read_archive(frame, options.verify);
  const frame::Archive& archive = state_->archive;
  if (archive.source_bytes > state_->budget) {
    fail(ErrorKind::limit, "source raw_bytes: {} are more than the output limit of {}", archive.source_bytes, state_->budget);
  }
  if (archive.source != frame::Source::none) {
    state_->source.resize(static_cast<std::size_t>(archive.source_bytes));
    ByteReader in = archive.source_coded.reader();
    entropy::read_bytes(in, state_->source, "source");
    in.expect_end("source");
  }
  for (std::size_t k = 0; k < archive.entries.size(); ++k) state_->by_name.emplace(archive.entries[k].name, k);
}
ArchiveReader::~ArchiveReader() = default;

SourceKind ArchiveReader::source_kind() const { return static_cast<SourceKind>(state_->archive.source); }
const std::vector<std::uint8_t>& ArchiveReader::source_header() const { return state_->source; }
std::size_t ArchiveReader::size() const { return state_->archive.entries.size(); }

const std::string& ArchiveReader::name(std::size_t index) const { return state_->archive.entries.at(index).name; }

std::size_t ArchiveReader::find(std::string_view name) const {
  const auto found = state_->by_name.find(name);
  if (found != state_->by_name.end()) return found->second;
  std::vector<std::string_view> known;
  for (const frame::ArchiveEntry& entry : state_->archive.entries) known.push_back(entry.name);
  fail(ErrorKind::invalid_argument, "tensor '{}' is not in this archive of {}{}", name, known.size(), near_names(name, known));
}

TensorInfo ArchiveReader::info(std::size_t index) const {
  const frame::TensorBody body = state_->body(index, UINT64_MAX);
  TensorInfo info = api::describe(lossless::TensorDecoder(body, false), state_->archive.entries[index].length);
  info.name = name(index);
  return info;
}

Tensor ArchiveReader::tensor(std::size_t index) const {
  const frame::TensorBody body = state_->body(index, state_->budget);
  const lossless::TensorDecoder decoder(body, state_->options.verify);
  Tensor tensor;
  tensor.dtype = body.header.dtype;
  tensor.shape = body.header.dims;
  tensor.data.resize(static_cast<std::size_t>(body.header.bytes()));
  std::vector<lossless::Scratch> scratch;
  api::decode_all(decoder, tensor.data, state_->options.threads, scratch);
  return tensor;
}

void ArchiveReader::tensor_into(std::size_t index, std::span<std::uint8_t> out) const {
  const frame::TensorBody body = state_->body(index, std::max<std::uint64_t>(out.size(), state_->budget));
  const lossless::TensorDecoder decoder(body, state_->options.verify);
  std::vector<lossless::Scratch> scratch;
  api::decode_all(decoder, out, state_->options.threads, scratch);
}

std::vector<std::uint8_t> ArchiveReader::range(std::size_t index, std::uint64_t first, std::uint64_t last) const {
  const frame::TensorBody body = state_->body(index, UINT64_MAX);
  return api::decode_range(lossless::TensorDecoder(body, state_->options.verify), first, last);
}

}  // namespace gradwire
