// Free functions: whole tensors, headers, options.
#include <optional>
#include <utility>

#include "bindings.h"
#include "gradwire/error.h"
#include "gradwire/methods.h"
#include "gradwire/options.h"

namespace gradwire::python {
namespace {

using nb::literals::operator""_a;
using ReleaseGil = nb::call_guard<nb::gil_scoped_release>;
using AnyArray = nb::ndarray<nb::ro, nb::device::cpu>;

CompressOptions compress_options(std::string_view method, int level, std::string_view coder,
                                 std::string_view tables, int threads, bool checksum) {
  CompressOptions options;
  options.level = level;
  options.coder = parse_coder(coder);
  options.tables = parse_tables(tables);
  options.threads = threads;
  options.checksum = checksum;
  return parse_method(method, options);
}

nb::bytes compress_tensor(const InputBytes& data, std::string_view dtype, const Shape& shape,
                          const CompressOptions& options) {
  const TensorView tensor{.dtype = parse_dtype(dtype), .shape = shape, .data = span_of(data)};
  std::vector<std::uint8_t> frame;
  {
    const nb::gil_scoped_release released;
    frame = compress(tensor, options);
  }
  return to_bytes(frame);
}

/// (frame, what it lost; empty unless `report`).
std::pair<nb::bytes, Fields> compress_tensor_lossy(const InputBytes& data, std::string_view dtype,
                                                   const Shape& shape, std::string_view method,
                                                   std::string_view name, bool checksum,
                                                   bool report) {
  const TensorView tensor{.dtype = parse_dtype(dtype), .shape = shape, .data = span_of(data)};
  LossyReport found;
  std::vector<std::uint8_t> frame;
  {
    const nb::gil_scoped_release released;
    frame = compress_lossy(tensor, method, name, report ? &found : nullptr, checksum);
  }
  return {to_bytes(frame), report ? report_fields(found) : Fields()};
}

TensorTuple decompress_tensor(const InputBytes& frame, std::uint64_t max_output, int threads) {
  Tensor tensor;
  {
    const nb::gil_scoped_release released;
    tensor = decompress(span_of(frame), decompress_options(max_output, threads));
  }
  return tensor_tuple(std::move(tensor));
}

void decompress_tensor_into(const InputBytes& frame, const OutputBytes& out,
                            std::uint64_t max_output, int threads) {
  decompress_into(span_of(frame), span_of(out), decompress_options(max_output, threads));
}

std::optional<DType> dtype_of(nb::dlpack::dtype type) {
  constexpr unsigned kFloat8E4M3fn = 10;  // DLPack 1.1; nanobind does not name them
  constexpr unsigned kFloat8E5M2 = 12;
  const auto is = [&](unsigned code, unsigned bits) {
    return type.code == code && type.bits == bits && type.lanes == 1;
  };
  if (is(static_cast<unsigned>(nb::dlpack::dtype_code::Bfloat), 16)) return DType::bf16;
  if (is(kFloat8E4M3fn, 8)) return DType::f8_e4m3;
  if (is(kFloat8E5M2, 8)) return DType::f8_e5m2;
  return std::nullopt;
}

/// (data, dtype name, shape) of a DLPack exporter whose element type NumPy does not know; None when
/// it is not one of ours or not in row-major order.
std::optional<TensorTuple> view_dlpack(AnyArray array) {
  const std::optional<DType> dtype = dtype_of(array.dtype());
  Shape shape(array.ndim());
  std::int64_t stride = 1;
  bool contiguous = true;
  for (std::size_t i = array.ndim(); i-- > 0;) {
    shape[i] = array.shape(i);
    contiguous = contiguous && (array.shape(i) <= 1 || array.stride(i) == stride);
    stride *= static_cast<std::int64_t>(array.shape(i));
  }
  if (!dtype || !(contiguous || array.size() == 0)) return std::nullopt;
  auto* held = new AnyArray(array);  // keeps the exporter's memory
  const nb::capsule owner(held,
                          [](void* pointer) noexcept { delete static_cast<AnyArray*>(pointer); });
  const nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>> bytes(
      static_cast<const std::uint8_t*>(array.data()), {array.nbytes()}, owner);
  return TensorTuple(nb::make_tuple(bytes, dtype_name(*dtype), shape_tuple(shape)));
}

/// (name, traits) of each method.
std::vector<std::pair<std::string_view, std::string_view>> list_methods() {
  std::vector<std::pair<std::string_view, std::string_view>> list;
  for (const Method& method : methods()) list.emplace_back(method.name, method.traits);
  return list;
}

}  // namespace

void bind_functions(nb::module_& module) {
  nb::class_<CompressOptions>(module, "CompressOptions");
  module.def("compress_options", &compress_options, "method"_a, "level"_a, "coder"_a, "tables"_a,
             "threads"_a, "checksum"_a);
  module.def("compress", &compress_tensor, "data"_a.noconvert(), "dtype"_a, "shape"_a, "options"_a);
  module.def("is_lossy_method", &is_lossy_method, "method"_a);
  module.def("canonical_method", &canonical_method, "method"_a);
  module.def("compress_lossy", &compress_tensor_lossy, "data"_a.noconvert(), "dtype"_a, "shape"_a,
             "method"_a, "name"_a, "checksum"_a, "report"_a);
  module.def("decompress", &decompress_tensor, "frame"_a.noconvert(), "max_output"_a, "threads"_a);
  module.def("decompress_into", &decompress_tensor_into, "frame"_a.noconvert(), "out"_a.noconvert(),
             "max_output"_a, "threads"_a, ReleaseGil());
  module.def("view_dlpack", &view_dlpack, "array"_a.noconvert());

  module.def("methods", &list_methods);
  module.def(
      "compress_bound",
      [](std::string_view dtype, std::uint64_t n) { return compress_bound(parse_dtype(dtype), n); },
      "dtype"_a, "n"_a);
  module.def(
      "tensor_info",
      [](const InputBytes& frame) { return info_fields(tensor_info(span_of(frame))); },
      "frame"_a.noconvert());
  module.def(
      "tensor_header",
      [](const InputBytes& frame) { return header_tuple(tensor_header(span_of(frame))); },
      "frame"_a.noconvert());
  module.def(
      "is_archive", [](const InputBytes& frame) { return is_archive(span_of(frame)); },
      "frame"_a.noconvert());
  module.def(
      "parse_dtype",
      [](std::string_view name) { return std::string(dtype_name(parse_dtype(name))); }, "name"_a);
  module.def(
      "order0_bound",
      [](const InputBytes& data, std::string_view dtype, const Shape& shape) {
        return order0_bound({parse_dtype(dtype), shape, span_of(data)});
      },
      "data"_a.noconvert(), "dtype"_a, "shape"_a, ReleaseGil());
  module.def(
      "zero_share",
      [](const InputBytes& data, std::string_view dtype, const Shape& shape) {
        return zero_share({parse_dtype(dtype), shape, span_of(data)});
      },
      "data"_a.noconvert(), "dtype"_a, "shape"_a, ReleaseGil());
}

}  // namespace gradwire::python
