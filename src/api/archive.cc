// ArchiveWriter and ArchiveReader of gradwire/frame.h.

#include "frame/archive.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "api/frame_access.h"
#include "base/near_names.h"
#include "api/source_header.h"
#include "base/fail.h"
#include "gradwire/frame.h"
#include "lossless/tensor_encoder.h"
#include "stages/entropy/integer_array.h"

namespace gradwire {
namespace {

/// The `source` section; empty for kind none.
Bytes write_source(SourceKind kind, const Bytes& header,
                   const std::vector<api::SourceTensor>& tensors) {
  Bytes section;
  if (kind == SourceKind::none) return section;
  std::optional<api::DerivedHeader> derived;
  if (kind == SourceKind::safetensors) derived = api::derive_safetensors(header, tensors);
  const Bytes& text = derived ? derived->prefix : header;
  ByteWriter out(section);
  out.u8(static_cast<std::uint8_t>(kind));
  out.u8(derived ? 1 : 0);
  out.varint(text.size());
  entropy::write_bytes(text, out);
  if (derived) out.varint(derived->spaces);
  return section;
}

}  // namespace

struct ArchiveWriter::State {
  CompressOptions options;
  lossless::EncoderMemory memory;
  SourceKind kind = SourceKind::none;
  Bytes header;
  /// Tensors behind room for what an archive begins with: as much as the last one took, so that
  /// archives that are alike are written without moving their tensors.
  Bytes tensors;
  std::size_t front = 0;
  std::vector<frame::ArchiveEntry> entries;
  std::vector<api::SourceTensor> sources;
  std::unordered_set<std::string> names;

  void start_anew() {
    kind = SourceKind::none;
    header.clear();
    tensors.assign(front, 0);
    entries.clear();
    sources.clear();
    names.clear();
  }
};

ArchiveWriter::ArchiveWriter(const CompressOptions& options) : state_(std::make_unique<State>()) {
  api::check_options(options);
  state_->options = options;
}
ArchiveWriter::~ArchiveWriter() = default;

void ArchiveWriter::set_source(SourceKind kind, std::span<const std::uint8_t> header) {
  if (header.size() >= frame::kMaxSourceBytes) {
    fail(ErrorKind::invalid_argument, "source: {} bytes of header, at most {} allowed",
         header.size(), frame::kMaxSourceBytes - 1);
  }
  state_->kind = kind;
  state_->header.assign(header.begin(), header.end());
}

void ArchiveWriter::add(std::string_view name, const TensorView& tensor) {
  if (name.size() > frame::kMaxName) {
    fail(ErrorKind::invalid_argument, "name: {} bytes long, at most {} allowed", name.size(),
         frame::kMaxName);
  }
  if (!frame::is_utf8(name)) fail(ErrorKind::invalid_argument, "name '{}' is not UTF-8", name);
  api::check_tensor(tensor);
  if (!state_->names.insert(std::string(name)).second) {
    fail(ErrorKind::invalid_argument, "name '{}' was added before", name);
  }
  const std::size_t start = state_->tensors.size();
  lossless::encode_tensor(tensor, state_->options, true, state_->memory, state_->tensors);
  state_->entries.push_back({std::string(name), 0, state_->tensors.size() - start});
  state_->sources.push_back({std::string(name),
                             tensor.dtype,
                             {tensor.shape.begin(), tensor.shape.end()},
                             tensor.data.size()});
}

std::uint64_t ArchiveWriter::size() const { return state_->tensors.size() - state_->front; }

std::vector<std::uint8_t> ArchiveWriter::finish() {
  std::vector<std::uint8_t> frame;
  finish_into(frame);
  return frame;
}

void ArchiveWriter::finish_into(std::vector<std::uint8_t>& frame) {
  const Bytes names = frame::directory_bytes(state_->entries);
  Bytes directory;
  ByteWriter out(directory);
  out.varint(state_->entries.size());
  out.varint(names.size());
  entropy::write_bytes(names, out);
  state_->front =
      frame::write_archive(write_source(state_->kind, state_->header, state_->sources), directory,
                           state_->options.checksum, state_->front, state_->tensors);
  frame.swap(state_->tensors);
  state_->start_anew();
}

struct ArchiveReader::State {
  ByteSpan bytes;
  DecompressOptions options;
  std::uint64_t budget = 0;
  frame::Archive archive;
  std::vector<std::uint8_t> source;
  std::unordered_map<std::string_view, std::size_t> by_name;
  mutable api::ScratchPool scratch;

  void read_source() {
    if (archive.source == frame::Source::none) return;
    source.resize(static_cast<std::size_t>(archive.source_bytes));
    ByteReader in = archive.source_coded.reader();
    entropy::read_bytes(in, source, "source");
    const std::uint64_t spaces = archive.derived ? in.count("source spaces", 65535) : 0;
    in.expect_end("source");
    if (!archive.derived) return;
    std::vector<api::SourceTensor> tensors;
    for (std::size_t k = 0; k < archive.entries.size(); ++k) {
      const frame::TensorHeader header = body(k, UINT64_MAX).header;
      tensors.push_back({archive.entries[k].name, header.dtype, header.dims, header.bytes()});
    }
    source = api::render_safetensors(source, tensors, spaces, budget);
  }

  const frame::ArchiveEntry& entry(std::size_t index) const {
    const std::size_t count = archive.entries.size();
    if (index >= count)
      fail(ErrorKind::invalid_argument, "index {} given, the archive has {} tensors", index, count);
    return archive.entries[index];
  }

  frame::TensorBody body(std::size_t index, std::uint64_t limit) const {
    const frame::ArchiveEntry& entry = this->entry(index);
    const ByteSpan part = bytes.subspan(static_cast<std::size_t>(entry.offset),
                                        static_cast<std::size_t>(entry.length));
    return frame::read_tensor_body(part, 0, static_cast<std::size_t>(entry.offset),
                                   archive.checksums, limit);
  }
};

ArchiveReader::ArchiveReader(std::span<const std::uint8_t> frame, const DecompressOptions& options)
    : state_(std::make_unique<State>()) {
  api::check_options(options);
  state_->bytes = frame;
  state_->options = options;
  state_->budget = api::output_budget(options, frame.size());
  state_->archive = frame::read_archive(frame, options.verify);
  frame::Archive& archive = state_->archive;
  if (std::max(archive.source_bytes, archive.directory_bytes) > state_->budget) {
    fail(ErrorKind::limit,
         "source and directory: {} and {} bytes are more than the output limit of {}",
         archive.source_bytes, archive.directory_bytes, state_->budget);
  }
  Bytes directory(static_cast<std::size_t>(archive.directory_bytes));
  ByteReader in = archive.directory_coded.reader();
  entropy::read_bytes(in, directory, "directory");
  in.expect_end("directory");
  frame::read_directory(directory, archive);
  for (std::size_t k = 0; k < archive.entries.size(); ++k)
    state_->by_name.emplace(archive.entries[k].name, k);
  state_->read_source();
}
ArchiveReader::~ArchiveReader() = default;

SourceKind ArchiveReader::source_kind() const {
  return static_cast<SourceKind>(state_->archive.source);
}
const std::vector<std::uint8_t>& ArchiveReader::source_header() const { return state_->source; }
std::size_t ArchiveReader::size() const { return state_->archive.entries.size(); }

const std::string& ArchiveReader::name(std::size_t index) const {
  return state_->entry(index).name;
}

std::size_t ArchiveReader::find(std::string_view name) const {
  const auto found = state_->by_name.find(name);
  if (found != state_->by_name.end()) return found->second;
  std::vector<std::string_view> known;
  for (const frame::ArchiveEntry& entry : state_->archive.entries) known.push_back(entry.name);
  fail(ErrorKind::invalid_argument, "tensor '{}' is not in this archive of {}{}", name,
       known.size(), near_names(name, known));
}

TensorInfo ArchiveReader::info(std::size_t index) const {
  const frame::TensorBody body = state_->body(index, UINT64_MAX);
  api::check_view(body, state_->budget);
  TensorInfo info =
      api::describe(lossless::TensorDecoder(body, false), state_->archive.entries[index].length);
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
  const api::ScratchLoan scratch(state_->scratch);
  api::decode_all(decoder, tensor.data, state_->options.threads, *scratch);
  return tensor;
}

void ArchiveReader::tensor_into(std::size_t index, std::span<std::uint8_t> out) const {
  const frame::TensorBody body =
      state_->body(index, std::max<std::uint64_t>(out.size(), state_->budget));
  const lossless::TensorDecoder decoder(body, state_->options.verify);
  const api::ScratchLoan scratch(state_->scratch);
  api::decode_all(decoder, out, state_->options.threads, *scratch);
}

std::vector<std::uint8_t> ArchiveReader::range(std::size_t index, std::uint64_t first,
                                               std::uint64_t last) const {
  const frame::TensorBody body = state_->body(index, UINT64_MAX);
  api::check_view(body, state_->budget);
  return api::decode_range(lossless::TensorDecoder(body, state_->options.verify), first, last,
                           state_->budget);
}

}  // namespace gradwire
