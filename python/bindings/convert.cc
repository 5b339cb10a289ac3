// Results of the library as Python objects.
#include <memory>
#include <string>
#include <utility>

#include "bindings.h"

namespace gradwire::python {

OwnedBytes to_array(std::vector<std::uint8_t> bytes) {
  using Vector = std::vector<std::uint8_t>;
  auto vector = std::make_unique<Vector>(std::move(bytes));
  std::uint8_t* data = vector->data();
  const std::size_t size = vector->size();
  nb::capsule owner(vector.get(),
                    [](void* pointer) noexcept { delete static_cast<Vector*>(pointer); });
  static_cast<void>(vector.release());  // the capsule frees it
  return OwnedBytes(data, {size}, owner);
}

nb::bytes to_bytes(std::span<const std::uint8_t> bytes) {
  return nb::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

ShapeTuple shape_tuple(std::span<const std::uint64_t> shape) {
  nb::list dims;
  for (const std::uint64_t dim : shape) dims.append(dim);
  return ShapeTuple(nb::tuple(dims));
}

TensorTuple tensor_tuple(Tensor tensor) {
  const std::string_view dtype = dtype_name(tensor.dtype);
  const ShapeTuple shape = shape_tuple(tensor.shape);
  return TensorTuple(nb::make_tuple(to_array(std::move(tensor.data)), dtype, shape));
}

HeaderTuple header_tuple(const Tensor& header) {
  return HeaderTuple(nb::make_tuple(dtype_name(header.dtype), shape_tuple(header.shape)));
}

Fields info_fields(const TensorInfo& info) {
  Fields fields;
  fields["name"] = info.name;
  fields["dtype"] = dtype_name(info.dtype);
  fields["shape"] = shape_tuple(info.shape);
  fields["elements"] = info.elements;
  fields["original_bytes"] = info.original_bytes;
  fields["compressed_bytes"] = info.compressed_bytes;
  fields["pipeline"] = info.pipeline;
  fields["prediction"] = info.prediction;
  fields["signs"] = info.signs;
  fields["zeros"] = info.zeros;
  fields["fractions"] = info.fractions;
  fields["tables"] = info.tables;
  fields["chunks"] = info.chunks;
  fields["constant_chunks"] = info.constant_chunks;
  fields["stored_chunks"] = info.stored_chunks;
  fields["checksums"] = info.checksums;
  return fields;
}

Fields report_fields(const LossyReport& report) {
  Fields fields;
  fields["elements"] = report.elements;
  fields["selected"] = report.selected;
  fields["index_bytes"] = report.index_bytes;
  fields["value_bytes"] = report.value_bytes;
  fields["relative_l2"] = report.relative_l2;
  fields["largest_error"] = report.largest_error;
  fields["sign_agreement"] = report.sign_agreement;
  return fields;
}

DecompressOptions decompress_options(std::uint64_t max_output, int threads) {
  DecompressOptions options;
  options.max_output = max_output;
  options.threads = threads;
  return options;
}

}  // namespace gradwire::python
