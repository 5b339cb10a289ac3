// The C interface of gradwire/gradwire.h over the C++ one: checks pointers and sizes, turns
// exceptions into error kinds, keeps the last sentence for each thread.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "api/frame_access.h"
#include "base/fail.h"
#include "gradwire/compress.h"
#include "gradwire/frame.h"
#include "gradwire/gradwire.h"
#include "gradwire/methods.h"

struct gradwire_compressor {
  gradwire::Compressor context;
  std::vector<std::uint8_t> frame;  // keeps its capacity between calls
};

struct gradwire_decompressor {
  gradwire::Decompressor context;
};

namespace {

using gradwire::DType;
using gradwire::ErrorKind;

static_assert(GRADWIRE_BOOL == static_cast<int>(DType::boolean));
static_assert(GRADWIRE_IO == static_cast<int>(ErrorKind::io));

constexpr std::size_t kMaxMessageBytes = 1024;

/// A fixed buffer, so that reporting an error cannot fail.
char* last_message() noexcept {
  thread_local char message[kMaxMessageBytes] = "";
  return message;
}

int report(int kind, const char* message) noexcept {
  std::snprintf(last_message(), kMaxMessageBytes, "%s", message);
  return kind;
}

/// Runs the body of a C function: no exception leaves it.
template <typename Body>
int guarded(const Body& body) noexcept {
  try {
    body();
    return GRADWIRE_OK;
  } catch (const gradwire::Error& error) {
    return report(static_cast<int>(error.kind()), error.what());
  } catch (const std::bad_alloc&) {
    return report(GRADWIRE_NO_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return report(GRADWIRE_INVALID_ARGUMENT, error.what());
  } catch (...) {
    return report(GRADWIRE_INVALID_ARGUMENT, "unknown exception");
  }
}

void require(const void* pointer, const char* function, const char* parameter) {
  if (pointer == nullptr) {
    gradwire::fail(ErrorKind::invalid_argument, "{}: {} is NULL", function, parameter);
  }
}

DType checked_dtype(gradwire_dtype dtype, const char* function) {
  const auto id = static_cast<std::int64_t>(dtype);
  if (id < GRADWIRE_F32 || id > GRADWIRE_BOOL) {
    gradwire::fail(ErrorKind::invalid_argument, "{}: dtype is {}, must be {} to {}", function, id,
                   static_cast<int>(GRADWIRE_F32), static_cast<int>(GRADWIRE_BOOL));
  }
  return static_cast<DType>(id);
}

/// Bytes of a tensor, or an error when they cannot be addressed.
std::size_t tensor_bytes(DType dtype, std::span<const std::uint64_t> dims) {
  std::uint64_t bytes = gradwire::element_size(dtype);
  bool too_many = false;
  bool empty = false;
  for (const std::uint64_t dim : dims) {
    empty = empty || dim == 0;
    too_many = too_many || (dim != 0 && bytes > std::numeric_limits<std::size_t>::max() / dim);
    if (!too_many && dim != 0) bytes *= dim;
  }
  if (empty) return 0;
  if (too_many) {
    gradwire::fail(ErrorKind::invalid_argument, "gradwire_compress: dims hold 2^64 bytes or more");
  }
  return bytes;
}

std::span<const std::uint8_t> input(const void* data, std::size_t size, const char* function,
                                    const char* parameter) {
  if (size != 0) require(data, function, parameter);
  return {static_cast<const std::uint8_t*>(data), size};
}

}  // namespace

extern "C" {

const char* gradwire_version(void) { return GRADWIRE_VERSION; }

const char* gradwire_last_error(void) { return last_message(); }

int gradwire_compress_bound(gradwire_dtype dtype, uint64_t elements, size_t* bound) {
  return guarded([&] {
    require(bound, "gradwire_compress_bound", "bound");
    *bound = gradwire::compress_bound(checked_dtype(dtype, "gradwire_compress_bound"), elements);
  });
}

int gradwire_compressor_new(const char* options, gradwire_compressor** out) {
  return guarded([&] {
    require(out, "gradwire_compressor_new", "out");
    *out = nullptr;
    require(options, "gradwire_compressor_new", "options");
    gradwire::Compressor context(gradwire::parse_options(options));
    // Not make_unique: clang 14 does not make aggregates from arguments in parentheses.
    *out = new gradwire_compressor{std::move(context), {}};
  });
}

void gradwire_compressor_free(gradwire_compressor* compressor) { delete compressor; }

int gradwire_compress(gradwire_compressor* compressor, gradwire_dtype dtype, const uint64_t* dims,
                      size_t ndim, const void* data, void* dst, size_t capacity, size_t* written) {
  return guarded([&] {
    constexpr const char* kFunction = "gradwire_compress";
    require(written, kFunction, "written");
    *written = 0;
    require(compressor, kFunction, "compressor");
    if (ndim != 0) require(dims, kFunction, "dims");
    if (capacity != 0) require(dst, kFunction, "dst");
    gradwire::TensorView tensor{
        .dtype = checked_dtype(dtype, kFunction), .shape = {dims, ndim}, .data = {}};
    tensor.data = input(data, tensor_bytes(tensor.dtype, tensor.shape), kFunction, "data");
    compressor->context.compress(tensor, compressor->frame);
    const std::size_t size = compressor->frame.size();
    if (size > capacity) {
      gradwire::fail(ErrorKind::invalid_argument,
                     "{}: the frame takes {} bytes, dst has room for {}; gradwire_compress_bound "
                     "tells a size that is always enough",
                     kFunction, size, capacity);
    }
    std::memcpy(dst, compressor->frame.data(), size);
    *written = size;
  });
}

int gradwire_decompressor_new(gradwire_decompressor** out) {
  return guarded([&] {
    require(out, "gradwire_decompressor_new", "out");
    *out = nullptr;
    *out = std::make_unique<gradwire_decompressor>().release();
  });
}

void gradwire_decompressor_free(gradwire_decompressor* decompressor) { delete decompressor; }

int gradwire_frame_info(const void* frame, size_t size, gradwire_dtype* dtype, uint64_t* dims,
                        size_t* ndim, uint64_t* bytes) {
  return guarded([&] {
    constexpr const char* kFunction = "gradwire_frame_info";
    const gradwire::TensorInfo info = gradwire::tensor_info(input(frame, size, kFunction, "frame"));
    if (dtype != nullptr) *dtype = static_cast<gradwire_dtype>(info.dtype);
    if (bytes != nullptr) *bytes = info.original_bytes;
    if (ndim == nullptr) return;
    const std::size_t room = *ndim;
    *ndim = info.shape.size();
    if (room == 0) return;
    require(dims, kFunction, "dims");
    if (room < info.shape.size()) {
      gradwire::fail(ErrorKind::invalid_argument,
                     "{}: dims has room for {} sizes, the tensor has {}", kFunction, room,
                     info.shape.size());
    }
    std::ranges::copy(info.shape, dims);
  });
}

int gradwire_decompress(gradwire_decompressor* decompressor, const void* frame, size_t size,
                        void* dst, size_t capacity, size_t* written) {
  return guarded([&] {
    constexpr const char* kFunction = "gradwire_decompress";
    require(written, kFunction, "written");
    *written = 0;
    require(decompressor, kFunction, "decompressor");
    if (capacity != 0) require(dst, kFunction, "dst");
    const std::span<const std::uint8_t> bytes = input(frame, size, kFunction, "frame");
    const gradwire::Tensor header = gradwire::tensor_header(bytes);
    const std::uint64_t needed = gradwire::api::tensor_bytes(header.dtype, header.shape);
    if (needed > capacity) {
      gradwire::fail(ErrorKind::invalid_argument,
                     "{}: the tensor takes {} bytes, dst has room for {}", kFunction, needed,
                     capacity);
    }
    decompressor->context.decompress_into(
        bytes, {static_cast<std::uint8_t*>(dst), static_cast<std::size_t>(needed)});
    *written = static_cast<std::size_t>(needed);
  });
}

}  // extern "C"
