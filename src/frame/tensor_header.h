// The `tensor` section (docs/format.md 2.1, 3.1, 5, 6.1): shape, pipeline and its parameters.
// In: the section's bytes, or a filled header.
// Out: a checked header, or bytes.
// Assumes: nothing of the bytes; a header that read_tensor_header returns is safe to size buffers
// from once `elements` has been held against the output budget.
#pragma once

#include <array>
#include <vector>

#include "base/bytes.h"
#include "base/pipeline_parameters.h"
#include "gradwire/dtype.h"

namespace gradwire::frame {

inline constexpr std::size_t kMaxDimensions = 32;
inline constexpr std::uint32_t kMaxChunkElements = 65536;
inline constexpr unsigned kMaxStreamsLog2 = 5;

enum class Pipeline : std::uint8_t {
  planes = 0,
  scaled = 1,
  kernels = 2,
  low_rank = 3,
  reference = 4,
  lossy = 5
};
enum class PlaneMode : std::uint8_t { raw = 0, constant = 1, coded = 2 };

struct PlaneParameters {
  PlaneMode mode = PlaneMode::raw;
  std::uint8_t value = 0;  ///< the constant, or the table index
};

struct TensorHeader {
  DType dtype = DType::f32;
  std::vector<std::uint64_t> dims;
  std::uint64_t elements = 1;
  Pipeline pipeline = Pipeline::planes;
  std::uint32_t chunk_elements = kMaxChunkElements;
  unsigned streams_log2 = 3;
  ScaledParameters scaled;
  std::array<PlaneParameters, 8> planes{};
  KernelParameters kernels;

  std::size_t element_bytes() const noexcept { return element_size(dtype); }
  std::uint64_t bytes() const noexcept { return elements * element_bytes(); }
  std::uint64_t chunk_count() const noexcept {
    return (elements + chunk_elements - 1) / chunk_elements;
  }
  std::uint64_t rows() const noexcept {
    return (elements + scaled.origin + scaled.columns - 1) / scaled.columns;
  }
  /// Elements of chunk c.
  std::uint32_t chunk_size(std::uint64_t c) const noexcept {
    const std::uint64_t left = elements - c * chunk_elements;
    return left < chunk_elements ? static_cast<std::uint32_t>(left) : chunk_elements;
  }
};

/// Of a lossy body (docs/format.md 11) what stands before `form`; `in` is then there.
TensorHeader read_tensor_header(ByteReader& in);
void write_tensor_header(const TensorHeader& header, ByteWriter& out);

}  // namespace gradwire::frame
