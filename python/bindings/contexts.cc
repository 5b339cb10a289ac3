// Compressor and Decompressor. The library wants one caller at a time: each has a lock, which is
// waited for without the GIL and held until the result is a Python object.
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "bindings.h"
#include "gradwire/error.h"

namespace gradwire::python {
namespace {

using nb::literals::operator""_a;

std::unique_lock<std::mutex> lock_without_gil(std::mutex& mutex) {
  const nb::gil_scoped_release released;
  return std::unique_lock(mutex);
}

class CompressContext {
 public:
  explicit CompressContext(const CompressOptions& options) : compressor_(options) {}

  nb::bytes compress(const InputBytes& data, std::string_view dtype, const Shape& shape) {
    const auto lock = lock_without_gil(mutex_);
    run(data, dtype, shape);
    return to_bytes(frame_);
  }

  std::size_t compress_into(const InputBytes& data, std::string_view dtype, const Shape& shape,
                            const OutputBytes& out) {
    const auto lock = lock_without_gil(mutex_);
    run(data, dtype, shape);
    if (frame_.size() > out.size()) {
      throw Error(ErrorKind::invalid_argument,
                  "compress_into: the frame takes " + std::to_string(frame_.size()) +
                      " bytes, out has room for " + std::to_string(out.size()) +
                      "; compress_bound tells a size that is always enough");
    }
    std::memcpy(out.data(), frame_.data(), frame_.size());
    return frame_.size();
  }

  void begin(std::string_view dtype, const Shape& shape) {
    const auto lock = lock_without_gil(mutex_);
    compressor_.begin(parse_dtype(dtype), shape);
  }

  void feed(const InputBytes& data) {
    const auto lock = lock_without_gil(mutex_);
    const nb::gil_scoped_release released;
    compressor_.feed(span_of(data));
  }

  nb::bytes finish() {
    const auto lock = lock_without_gil(mutex_);
    {
      const nb::gil_scoped_release released;
      compressor_.finish(frame_);
    }
    return to_bytes(frame_);
  }

 private:
  void run(const InputBytes& data, std::string_view dtype, const Shape& shape) {
    const TensorView tensor{.dtype = parse_dtype(dtype), .shape = shape, .data = span_of(data)};
    const nb::gil_scoped_release released;
    compressor_.compress(tensor, frame_);
  }

  std::mutex mutex_;
  Compressor compressor_;
  std::vector<std::uint8_t> frame_;
};

class DecompressContext {
 public:
  DecompressContext(std::uint64_t max_output, int threads)
      : decompressor_(decompress_options(max_output, threads)) {}

  TensorTuple decompress(const InputBytes& frame) {
    const auto lock = lock_without_gil(mutex_);
    Tensor tensor;
    {
      const nb::gil_scoped_release released;
      decompressor_.decompress(span_of(frame), tensor);
    }
    return tensor_tuple(std::move(tensor));
  }

  void decompress_into(const InputBytes& frame, const OutputBytes& out) {
    const auto lock = lock_without_gil(mutex_);
    const nb::gil_scoped_release released;
    decompressor_.decompress_into(span_of(frame), span_of(out));
  }

  bool feed(const InputBytes& data) {
    const auto lock = lock_without_gil(mutex_);
    const nb::gil_scoped_release released;
    return decompressor_.feed(span_of(data), restored_);
  }

  /// (dtype name, shape) of the frame that is being fed; None before its head has come in.
  std::optional<HeaderTuple> header() {
    const auto lock = lock_without_gil(mutex_);
    const std::optional<Tensor> found = decompressor_.header();
    if (!found) return std::nullopt;
    return header_tuple(*found);
  }

  /// What was restored since the last call, with the tensor's header: (data, dtype name, shape).
  TensorTuple take() {
    const auto lock = lock_without_gil(mutex_);
    Tensor tensor = decompressor_.header().value_or(Tensor{});
    tensor.data = std::exchange(restored_, {});
    return tensor_tuple(std::move(tensor));
  }

 private:
  std::mutex mutex_;
  Decompressor decompressor_;
  std::vector<std::uint8_t> restored_;
};

}  // namespace

void bind_contexts(nb::module_& module) {
  nb::class_<CompressContext>(module, "CompressContext")
      .def(nb::init<const CompressOptions&>(), "options"_a)
      .def("compress", &CompressContext::compress, "data"_a.noconvert(), "dtype"_a, "shape"_a)
      .def("compress_into", &CompressContext::compress_into, "data"_a.noconvert(), "dtype"_a,
           "shape"_a, "out"_a.noconvert())
      .def("begin", &CompressContext::begin, "dtype"_a, "shape"_a)
      .def("feed", &CompressContext::feed, "data"_a.noconvert())
      .def("finish", &CompressContext::finish);
  nb::class_<DecompressContext>(module, "DecompressContext")
      .def(nb::init<std::uint64_t, int>(), "max_output"_a, "threads"_a)
      .def("decompress", &DecompressContext::decompress, "frame"_a.noconvert())
      .def("decompress_into", &DecompressContext::decompress_into, "frame"_a.noconvert(),
           "out"_a.noconvert())
      .def("feed", &DecompressContext::feed, "data"_a.noconvert())
      .def("header", &DecompressContext::header)
      .def("take", &DecompressContext::take);
}

}  // namespace gradwire::python
