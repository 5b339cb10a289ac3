#include "source.h"

#include <algorithm>
#include <string_view>

#include "errors.h"
#include "formatted.h"

namespace gradwire::cli {

using std::string_literals::operator""s;

std::optional<std::uint64_t> checked_product(std::span<const std::uint64_t> shape,
                                             std::uint64_t factor) {
  constexpr std::uint64_t kLimit = (std::uint64_t{1} << 62) - 1;
  if (std::find(shape.begin(), shape.end(), 0U) != shape.end()) return 0;
  std::uint64_t product = factor;
  for (const std::uint64_t dimension : shape) {
    if (product > kLimit / dimension) return std::nullopt;
    product *= dimension;
  }
  return product;
}

std::string shape_text(std::span<const std::uint64_t> shape) {
  if (shape.empty()) return "scalar";
  return formatted("{}", fmt::join(shape, " x "));
}

bool looks_like_frame(std::span<const std::uint8_t> bytes) {
  constexpr std::string_view kMagic = "GRDW";
  return bytes.size() >= kMagic.size() && std::equal(kMagic.begin(), kMagic.end(), bytes.begin());
}

Source read_raw(std::span<const std::uint8_t> bytes, DType dtype,
                const std::optional<std::vector<std::uint64_t>>& shape) {
  const std::uint64_t size = element_size(dtype);
  if (!shape && bytes.size() % size != 0) {
    fail(ErrorKind::invalid_argument,
         formatted("{} bytes are no whole number of {} elements of {} bytes", bytes.size(),
                   dtype_name(dtype), size));
  }
  SourceTensor tensor{"data", dtype, {bytes.size() / size}, bytes};
  if (shape) {
    tensor.shape = *shape;
    const std::optional<std::uint64_t> wanted = checked_product(*shape, size);
    if (wanted != bytes.size()) {
      fail(ErrorKind::invalid_argument,
           formatted("{} elements of {} take {} bytes, the input has {}", shape_text(*shape),
                     dtype_name(dtype), wanted ? std::to_string(*wanted) : "too many"s,
                     bytes.size()));
    }
  }
  return {SourceKind::raw, {}, {std::move(tensor)}};
}

Source read_source(const std::string& path, std::span<const std::uint8_t> bytes,
                   const RawLayout& raw) {
  if (path.ends_with(".safetensors")) return read_safetensors(bytes);
  if (path.ends_with(".npy")) return read_npy(bytes);
  if (raw.dtype) return read_raw(bytes, *raw.dtype, raw.shape);
  if (looks_like_npy(bytes)) return read_npy(bytes);
  if (looks_like_safetensors(bytes)) return read_safetensors(bytes);
  if (looks_like_frame(bytes)) {
    fail(ErrorKind::invalid_argument, "is a gradwire file already");
  }
  fail(ErrorKind::invalid_argument,
       "neither its ending nor its first bytes tell what it is; for raw data give --dtype (and "
       "--shape)");
}

}  // namespace gradwire::cli
