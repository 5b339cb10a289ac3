// What the binding files share: byte arrays in and out, options, tuples for tensors.
// In: flat uint8 arrays, dtype names and shapes, as gradwire/_arrays.py prepares them.
// Out: bytes, or arrays that own the library's memory.
// Assumes: gradwire/_arrays.py has checked types and sizes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "gradwire/compress.h"
#include "gradwire/frame.h"
#include "gradwire/lossy.h"

namespace gradwire::python {

namespace nb = nanobind;

using InputBytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using OutputBytes = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using OwnedBytes = nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>;
using Shape = std::vector<std::uint64_t>;
using ShapeTuple = nb::typed<nb::tuple, std::uint64_t, nb::ellipsis>;
using TensorTuple = nb::typed<nb::tuple, OwnedBytes, nb::str, ShapeTuple>;  // data, dtype, shape
using HeaderTuple = nb::typed<nb::tuple, nb::str, ShapeTuple>;              // dtype, shape
using Fields = nb::typed<nb::dict, nb::str, nb::any>;

inline std::span<const std::uint8_t> span_of(const InputBytes& bytes) {
  return {bytes.data(), bytes.size()};
}

inline std::span<std::uint8_t> span_of(const OutputBytes& bytes) {
  return {bytes.data(), bytes.size()};
}

/// Hands the vector's memory to Python without copying it.
OwnedBytes to_array(std::vector<std::uint8_t> bytes);

nb::bytes to_bytes(std::span<const std::uint8_t> bytes);

ShapeTuple shape_tuple(std::span<const std::uint64_t> shape);

TensorTuple tensor_tuple(Tensor tensor);

HeaderTuple header_tuple(const Tensor& header);

Fields info_fields(const TensorInfo& info);

Fields report_fields(const LossyReport& report);

DecompressOptions decompress_options(std::uint64_t max_output, int threads);

void bind_errors();
void bind_functions(nb::module_& module);
void bind_contexts(nb::module_& module);
void bind_archives(nb::module_& module);
void bind_exchange(nb::module_& module);
void bind_lossy(nb::module_& module);

}  // namespace gradwire::python
