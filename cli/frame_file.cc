#include "frame_file.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "errors.h"
#include "formatted.h"
#include "source.h"
#include "text.h"

namespace gradwire::cli {
namespace {

void check_magic(std::span<const std::uint8_t> bytes) {
  if (looks_like_frame(bytes)) return;
  if (bytes.empty()) fail(ErrorKind::truncated, "is empty, no gradwire file");
  std::string found;
  for (const std::uint8_t byte : bytes.first(std::min<std::size_t>(bytes.size(), 4))) {
    found += formatted(" {:02x}", byte);
  }
  fail(bytes.size() < 4 ? ErrorKind::truncated : ErrorKind::corrupt,
       formatted("not a gradwire file: byte 0 is the start of{}, not of GRDW", found));
}

/// Runs the work; errors name the tensor.
template <typename Work>
auto with_name(const std::string& name, Work work) {
  try {
    return work();
  } catch (const Error& error) {
    const std::string message = error.what();
    if (name.empty() || message.find(in_quotes(name)) != std::string::npos) throw;
    throw Error(error.kind(), formatted("tensor {}: {}", in_quotes(name), message));
  }
}

}  // namespace

FrameFile::FrameFile(std::span<const std::uint8_t> bytes, const DecompressOptions& options)
    : bytes_(bytes), options_(options) {
  check_magic(bytes);
  if (gradwire::is_archive(bytes)) reader_ = std::make_unique<ArchiveReader>(bytes, options);
  list_tensors();
}

void FrameFile::list_tensors() {
  const std::size_t count = reader_ ? reader_->size() : 1;
  infos_.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    infos_.push_back(reader_ ? with_name(reader_->name(i), [&] { return reader_->info(i); })
                             : tensor_info(bytes_));
    TensorInfo& info = infos_.back();
    if (reader_) info.name = reader_->name(i);
    if (info.original_bytes > std::numeric_limits<std::uint64_t>::max() - data_bytes_) {
      fail(ErrorKind::corrupt,
           formatted("tensor {}: the tensors together pass 2^64 bytes", in_quotes(info.name)));
    }
    data_bytes_ += info.original_bytes;
  }
}

SourceKind FrameFile::kind() const { return reader_ ? reader_->source_kind() : SourceKind::raw; }

bool FrameFile::is_lossy() const {
  for (std::size_t i = 0; i < size(); ++i)
    if (is_lossy(i)) return true;
  return false;
}

std::size_t FrameFile::find(const std::optional<std::string>& name) const {
  if (!name) {
    if (size() == 1) return 0;
    fail(
        ErrorKind::invalid_argument,
        formatted("holds {} tensors; choose one with --tensor (gradwire info lists them)", size()));
  }
  if (!reader_) {
    fail(ErrorKind::invalid_argument, "holds a single tensor without a name; leave out --tensor");
  }
  return reader_->find(*name);
}

void FrameFile::read(std::size_t index, std::span<std::uint8_t> out) const {
  with_name(info(index).name, [&] {
    if (reader_) {
      reader_->tensor_into(index, out);
    } else {
      decompress_into(bytes_, out, options_);
    }
  });
}

void FrameFile::read(std::size_t index, std::vector<std::uint8_t>& data) const {
  with_name(info(index).name, [&] { check_budget(info(index).original_bytes); });
  data.resize(info(index).original_bytes);
  read(index, std::span(data));
}

std::vector<std::uint8_t> FrameFile::range(std::size_t index, std::uint64_t first,
                                           std::uint64_t last) const {
  return with_name(info(index).name, [&] {
    check_budget((last - first) * element_size(info(index).dtype));
    return reader_ ? reader_->range(index, first, last)
                   : decompress_range(bytes_, first, last, options_);
  });
}

std::vector<std::uint8_t> FrameFile::header() const {
  if (!reader_) return {};
  if (kind() == SourceKind::none) return safetensors_header(infos_);
  return reader_->source_header();
}

void FrameFile::check_budget(std::uint64_t bytes) const {
  constexpr std::uint64_t kLeast = std::uint64_t{1} << 30, kTimes = 64;
  const std::uint64_t budget =
      options_.max_output > 0 ? options_.max_output : std::max(kLeast, bytes_.size() * kTimes);
  if (bytes <= budget) return;
  fail(ErrorKind::limit, formatted("restores to {} bytes, the limit is {}; raise it with "
                                   "--max-output",
                                   with_separators(bytes), with_separators(budget)));
}

std::string_view source_kind_name(SourceKind kind) {
  switch (kind) {
    case SourceKind::none:
      return "none";
    case SourceKind::safetensors:
      return "safetensors";
    case SourceKind::npy:
      return "npy";
    case SourceKind::raw:
      return "raw";
  }
  return "unknown";
}

}  // namespace gradwire::cli
