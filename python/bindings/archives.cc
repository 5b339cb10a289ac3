// Archives: many named tensors in one frame.
#include <utility>

#include "bindings.h"

namespace gradwire::python {
namespace {

using nb::literals::operator""_a;

using Names = nb::typed<nb::list, nb::str>;

/// Reads an archive in memory that Python owns; the array is held as long as the reader lives.
class HeldArchive {
 public:
  HeldArchive(InputBytes frame, std::uint64_t max_output, int threads)
      : frame_(std::move(frame)),
        reader_(span_of(frame_), decompress_options(max_output, threads)) {}

  Names names() const {
    Names names;
    for (std::size_t i = 0; i < reader_.size(); ++i) names.append(reader_.name(i));
    return names;
  }

  std::size_t find(std::string_view name) const { return reader_.find(name); }

  Fields info(std::size_t index) const { return info_fields(reader_.info(index)); }

  TensorTuple tensor(std::size_t index) const {
    Tensor tensor;
    {
      const nb::gil_scoped_release released;
      tensor = reader_.tensor(index);
    }
    return tensor_tuple(std::move(tensor));
  }

  void tensor_into(std::size_t index, const OutputBytes& out) const {
    const nb::gil_scoped_release released;
    reader_.tensor_into(index, span_of(out));
  }

  OwnedBytes range(std::size_t index, std::uint64_t first, std::uint64_t last) const {
    std::vector<std::uint8_t> bytes;
    {
      const nb::gil_scoped_release released;
      bytes = reader_.range(index, first, last);
    }
    return to_array(std::move(bytes));
  }

 private:
  InputBytes frame_;
  ArchiveReader reader_;
};

void add_tensor(ArchiveWriter& writer, std::string_view name, const InputBytes& data,
                std::string_view dtype, const Shape& shape) {
  const TensorView tensor{.dtype = parse_dtype(dtype), .shape = shape, .data = span_of(data)};
  const nb::gil_scoped_release released;
  writer.add(name, tensor);
}

void add_lossy_tensor(ArchiveWriter& writer, std::string_view name, const InputBytes& data,
                      std::string_view dtype, const Shape& shape, std::string_view method) {
  const TensorView tensor{.dtype = parse_dtype(dtype), .shape = shape, .data = span_of(data)};
  const nb::gil_scoped_release released;
  writer.add_lossy(name, tensor, method);
}

OwnedBytes finish(ArchiveWriter& writer) {
  std::vector<std::uint8_t> frame;
  {
    const nb::gil_scoped_release released;
    frame = writer.finish();
  }
  return to_array(std::move(frame));
}

}  // namespace

void bind_archives(nb::module_& module) {
  nb::class_<ArchiveWriter>(module, "ArchiveWriter")
      .def(nb::init<const CompressOptions&>(), "options"_a)
      .def("add", &add_tensor, "name"_a, "data"_a.noconvert(), "dtype"_a, "shape"_a)
      .def("add_lossy", &add_lossy_tensor, "name"_a, "data"_a.noconvert(), "dtype"_a, "shape"_a,
           "method"_a)
      .def("finish", &finish);
  nb::class_<HeldArchive>(module, "ArchiveReader")
      .def(nb::init<InputBytes, std::uint64_t, int>(), "frame"_a.noconvert(), "max_output"_a,
           "threads"_a)
      .def("names", &HeldArchive::names)
      .def("find", &HeldArchive::find, "name"_a)
      .def("info", &HeldArchive::info, "index"_a)
      .def("tensor", &HeldArchive::tensor, "index"_a)
      .def("tensor_into", &HeldArchive::tensor_into, "index"_a, "out"_a.noconvert())
      .def("range", &HeldArchive::range, "index"_a, "first"_a, "last"_a);
}

}  // namespace gradwire::python
