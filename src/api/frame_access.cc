#include "api/frame_access.h"

#include <algorithm>
#include <cstring>

#include "base/fail.h"
#include "base/parallel.h"
#include "lossless/tensor_encoder.h"

namespace gradwire::api {
namespace {

constexpr std::uint64_t kLineBytes =
    8;  ///< that the side information of a row or column takes in memory
constexpr std::uint64_t kFewLines = 65536;  ///< allowed whatever the budget

void check_threads(int threads) {
  if (threads < 1 || threads > 1024)
    fail(ErrorKind::invalid_argument, "threads: {} given, 1 to 1024 allowed", threads);
}

std::string dims_text(std::span<const std::uint64_t> dims) {
  return formatted("({})", fmt::join(dims, ", "));
}

}  // namespace

std::uint64_t output_budget(const DecompressOptions& options, std::uint64_t size) noexcept {
  if (options.max_output != 0) return options.max_output;
  return std::max(kDefaultBudget, std::min(size, UINT64_MAX / 64) * 64);
}

void refuse_archive(const frame::Prelude& prelude) {
  if (!prelude.archive()) return;
  fail(ErrorKind::invalid_argument,
       "flags at byte 6: this frame is an archive of many tensors; open it as one");
}

frame::TensorBody open_frame(ByteSpan bytes, std::uint64_t budget) {
  const frame::Prelude prelude = frame::read_prelude(bytes);
  refuse_archive(prelude);
  return frame::read_tensor_body(bytes, prelude.header_bytes, 0, prelude.checksums(), budget);
}

void decode_all(const lossless::TensorDecoder& decoder, std::span<std::uint8_t> out, int threads,
                std::vector<lossless::Scratch>& scratch) {
  const frame::TensorHeader& header = decoder.body().header;
  if (out.size() != header.bytes()) {
    fail(ErrorKind::invalid_argument, "decompress: the output has {} bytes, the tensor {}",
         out.size(), header.bytes());
  }
  const auto workers = static_cast<std::size_t>(std::max(threads, 1));
  if (scratch.size() < workers) scratch.resize(workers);
  const std::size_t width = header.element_bytes();
  parallel_for(decoder.body().index.size(), threads, [&](std::size_t c, std::size_t worker) {
    decoder.decode_chunk(
        c, out.subspan(c * header.chunk_elements * width, header.chunk_size(c) * width),
        scratch[worker]);
  });
}

void check_view(const frame::TensorBody& body, std::uint64_t budget) {
  const frame::TensorHeader& header = body.header;
  const bool lines_needed = body[frame::Section::dead].present ||
                            body[frame::Section::scales].present ||
                            body[frame::Section::signs].present;
  if (header.elements == 0 || header.pipeline != frame::Pipeline::scaled || !lines_needed) return;
  const std::uint64_t lines = header.rows() + header.scaled.columns;
  if (lines > budget / kLineBytes + kFewLines) {
    fail(ErrorKind::limit,
         "columns: a view of {} x {} needs more memory than the limit of {} bytes", header.rows(),
         header.scaled.columns, budget);
  }
}

ScratchPool::Item ScratchPool::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return std::make_unique<std::vector<lossless::Scratch>>();
  Item item = std::move(free_.back());
  free_.pop_back();
  return item;
}

void ScratchPool::give(Item item) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(item));
}

std::vector<std::uint8_t> decode_range(const lossless::TensorDecoder& decoder, std::uint64_t first,
                                       std::uint64_t last, std::uint64_t budget) {
  const frame::TensorHeader& header = decoder.body().header;
  if (first > last || last > header.elements) {
    fail(ErrorKind::invalid_argument, "range {}:{} is not within the tensor's {} elements", first,
         last, header.elements);
  }
  const std::size_t width = header.element_bytes();
  if (last - first > budget / width) {
    fail(ErrorKind::limit,
         "range {}:{} has more bytes than the limit of {}; raise max_output to allow it", first,
         last, budget);
  }
  std::vector<std::uint8_t> out(static_cast<std::size_t>(last - first) * width);
  std::vector<std::uint8_t> chunk;
  lossless::Scratch scratch;
  for (std::uint64_t at = first; at < last;) {
    const std::uint64_t c = at / header.chunk_elements;
    const std::uint64_t begin = c * header.chunk_elements;
    const std::uint64_t end = begin + header.chunk_size(c);
    const auto n = static_cast<std::size_t>(std::min(end, last) - at);
    chunk.resize(static_cast<std::size_t>(end - begin) * width);
    decoder.decode_chunk(c, chunk, scratch);
    std::memcpy(out.data() + static_cast<std::size_t>(at - first) * width,
                chunk.data() + static_cast<std::size_t>(at - begin) * width, n * width);
    at += n;
  }
  return out;
}

std::uint64_t tensor_bytes(DType dtype, std::span<const std::uint64_t> shape) {
  const auto id = static_cast<unsigned>(dtype);
  if (id < 1 || id > 15) fail(ErrorKind::invalid_argument, "dtype: id {} is not known", id);
  if (shape.size() > frame::kMaxDimensions) {
    fail(ErrorKind::invalid_argument, "shape: {} dimensions, at most {} allowed", shape.size(),
         frame::kMaxDimensions);
  }
  std::uint64_t elements = 1;
  const std::uint64_t most = (std::uint64_t{1} << 62) / element_size(dtype);
  bool empty = false;
  for (const std::uint64_t dim : shape) {
    empty |= dim == 0;
    if (dim > most / elements)
      fail(ErrorKind::invalid_argument, "shape: {} is too large", dims_text(shape));
    elements *= std::max<std::uint64_t>(dim, 1);
  }
  return empty ? 0 : elements * element_size(dtype);
}

void check_tensor(const TensorView& tensor) {
  const std::uint64_t expected = tensor_bytes(tensor.dtype, tensor.shape);
  if (expected != tensor.data.size()) {
    fail(ErrorKind::invalid_argument, "data: {} bytes given, shape {} of {} needs {}",
         tensor.data.size(), dims_text(tensor.shape), dtype_name(tensor.dtype), expected);
  }
}

void check_options(const CompressOptions& options) {
  if (options.level < 1 || options.level > 3) {
    fail(ErrorKind::invalid_argument, "level: {} given, 1 to 3 allowed", options.level);
  }
  check_threads(options.threads);
}

void check_options(const DecompressOptions& options) { check_threads(options.threads); }

}  // namespace gradwire::api
