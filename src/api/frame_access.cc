#include "api/frame_access.h"

#include <algorithm>

#include "base/fail.h"

namespace gradwire::api {
namespace {

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

OpenTensor open_frame(ByteSpan bytes, std::uint64_t max_output, bool verify) {
  const frame::Prelude prelude = frame::read_prelude(bytes);
  refuse_archive(prelude);
  return OpenTensor(bytes, {prelude.header_bytes, 0, prelude.checksums(), prelude.lossy()},
                    max_output, verify);
}

ScratchPool::Item ScratchPool::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return std::make_unique<DecodeScratch>();
  Item item = std::move(free_.back());
  free_.pop_back();
  return item;
}

void ScratchPool::give(Item item) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(item));
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
