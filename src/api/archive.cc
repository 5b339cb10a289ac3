// ArchiveWriter and ArchiveReader of gradwire/frame.h.

#include "frame/archive.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "api/frame_access.h"
#include "api/lossy_tensor.h"
#include "api/source_header.h"
#include "base/fail.h"
#include "base/near_names.h"
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
  api::LossyMemory lossy_memory;
  bool is_lossy = false;  ///< one of the bodies is

  void note_name(std::string_view name);
  void note_tensor(std::string_view name, const TensorView& tensor, std::size_t start);

  void start_anew() {
    kind = SourceKind::none;
    header.clear();
    tensors.assign(front, 0);
    entries.clear();
    sources.clear();
    names.clear();
    is_lossy = false;
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

void ArchiveWriter::State::note_name(std::string_view name) {
  if (name.size() > frame::kMaxName) {
    fail(ErrorKind::invalid_argument, "name: {} bytes long, at most {} allowed", name.size(),
         frame::kMaxName);
  }
  if (!frame::is_utf8(name)) fail(ErrorKind::invalid_argument, "name '{}' is not UTF-8", name);
  if (!names.insert(std::string(name)).second) {
    fail(ErrorKind::invalid_argument, "name '{}' was added before", name);
  }
}

/// The body has been appended, from `start` on.
void ArchiveWriter::State::note_tensor(std::string_view name, const TensorView& tensor,
                                       std::size_t start) {
  entries.push_back({std::string(name), 0, tensors.size() - start});
  sources.push_back({std::string(name),
                     tensor.dtype,
                     {tensor.shape.begin(), tensor.shape.end()},
                     tensor.data.size()});
}

void ArchiveWriter::add(std::string_view name, const TensorView& tensor) {
  api::check_tensor(tensor);
  state_->note_name(name);
  const std::size_t start = state_->tensors.size();
  lossless::encode_tensor(tensor, state_->options, true, state_->memory, state_->tensors);
  state_->note_tensor(name, tensor, start);
}

void ArchiveWriter::add_lossy(std::string_view name, const TensorView& tensor,
                              std::string_view spec, LossyReport* report) {
  const lossy::Recipe recipe = lossy::parse_file_recipe(spec);
  api::check_tensor(tensor);
  state_->note_name(name);
  const std::size_t start = state_->tensors.size();
  const auto end = state_->options.checksum ? lossy::BodyEnd::archive : lossy::BodyEnd::none;
  try {
    if (api::can_be_lossy(tensor) &&
        api::encode_lossy(tensor, recipe, name, end, state_->lossy_memory, state_->tensors,
                          report)) {
      state_->is_lossy = true;
    } else {
      lossless::encode_tensor(tensor, state_->options, true, state_->memory, state_->tensors);
      if (report != nullptr) *report = api::exact_report(tensor, state_->tensors.size() - start);
    }
  } catch (...) {  // a tensor that is not finite may be added by another method
    state_->tensors.resize(start);
    state_->names.erase(std::string(name));
    throw;
  }
  state_->note_tensor(name, tensor, start);
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
  const auto flags = static_cast<std::uint16_t>((state_->options.checksum ? frame::kChecksums : 0) |
                                                (state_->is_lossy ? frame::kLossy : 0));
  state_->front = frame::write_archive(write_source(state_->kind, state_->header, state_->sources),
                                       directory, flags, state_->front, state_->tensors);
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
      const api::OpenTensor tensor = open(k, UINT64_MAX, false);
      const frame::TensorHeader& header = tensor.header();
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

  api::OpenTensor open(std::size_t index, std::uint64_t max_output, bool verify) const {
    const frame::ArchiveEntry& entry = this->entry(index);
    const ByteSpan part = bytes.subspan(static_cast<std::size_t>(entry.offset),
                                        static_cast<std::size_t>(entry.length));
    return api::OpenTensor(
        part, {0, static_cast<std::size_t>(entry.offset), archive.checksums, archive.lossy},
        max_output, verify);
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
  const api::OpenTensor open = state_->open(index, UINT64_MAX, false);
  TensorInfo info = open.describe(state_->archive.entries[index].length, state_->budget);
  info.name = name(index);
  return info;
}

Tensor ArchiveReader::tensor(std::size_t index) const {
  const DecompressOptions& options = state_->options;
  const api::ScratchLoan scratch(state_->scratch);
  Tensor tensor;
  state_->open(index, state_->budget, options.verify).restore(tensor, options.threads, *scratch);
  return tensor;
}

void ArchiveReader::tensor_into(std::size_t index, std::span<std::uint8_t> out) const {
  const DecompressOptions& options = state_->options;
  const std::uint64_t most = std::max<std::uint64_t>(out.size(), state_->budget);
  const api::ScratchLoan scratch(state_->scratch);
  state_->open(index, most, options.verify).decode(out, options.threads, *scratch);
}

std::vector<std::uint8_t> ArchiveReader::range(std::size_t index, std::uint64_t first,
                                               std::uint64_t last) const {
  return state_->open(index, UINT64_MAX, state_->options.verify).range(first, last, state_->budget);
}

}  // namespace gradwire
