#include "frame/tensor_header.h"

#include "base/fail.h"
#include "base/float_format.h"

namespace gradwire::frame {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 62;
constexpr std::uint64_t kMaxColumns = std::uint64_t{1} << 31;
constexpr unsigned kMaxWindow = 62;

std::uint64_t ranged(ByteReader& in, const char* field, std::uint64_t least, std::uint64_t most) {
  const std::size_t at = in.offset();
  const std::uint64_t value = in.count(field, most);
  if (value < least)
    fail(ErrorKind::corrupt, "{} at byte {}: {} found, at least {} allowed", field, at, value,
         least);
  return value;
}

unsigned small(ByteReader& in, const char* field, unsigned least, unsigned most) {
  const std::size_t at = in.offset();
  const unsigned value = in.u8(field);
  if (value < least || value > most) {
    fail(ErrorKind::corrupt, "{} at byte {}: {} found, {} to {} allowed", field, at, value, least,
         most);
  }
  return value;
}

void read_scaled(ByteReader& in, TensorHeader& header) {
  ScaledParameters& p = header.scaled;
  const unsigned fraction = float_format(header.dtype).fraction_bits;
  p.kept = small(in, "kept", 0, fraction);
  p.step_log2 = small(in, "step_log2", 0, p.kept < 2 ? p.kept : 2);
  p.window = small(in, "window", 1, kMaxWindow);
  const std::size_t at = in.offset();
  const unsigned modes = small(in, "modes", 0, 127);
  if ((modes >> 1 & 3) == 3)
    fail(ErrorKind::corrupt, "modes at byte {}: sign_mode 3 is not defined", at);
  p.has_scales = modes & 1;
  p.sign_mode = static_cast<SignMode>(modes >> 1 & 3);
  p.counted = modes >> 3 & 1;
  p.halved = modes >> 4 & 1;
  p.has_zero = modes >> 5 & 1;
  p.joint = modes >> 6 & 1;
  if (p.halved && !p.has_scales)
    fail(ErrorKind::corrupt, "modes at byte {}: halved without has_scales", at);
  const bool countable = header.dtype == DType::f32 || header.dtype == DType::f16;
  if (p.counted && (!countable || p.rest_bits() == 0)) {
    fail(ErrorKind::corrupt,
         "modes at byte {}: counted is for f32 and f16 with fraction bits to count", at);
  }
  if (p.joint && (!p.counted || p.alphabet() > 16)) {
    fail(ErrorKind::corrupt, "modes at byte {}: joint needs counted and at most 16 symbols", at);
  }
  if (p.counted) p.low_count = small(in, "low_count", 0, p.rest_bits());
  p.columns = ranged(in, "columns", 1, kMaxColumns);
  p.origin = in.count("origin", p.columns - 1);
  if (p.sign_mode == SignMode::tap) {
    p.taps = ranged(in, "taps", 1, kMaxBytes);
    p.inner = ranged(in, "inner", 1, kMaxBytes);
  }
}

void write_scaled(const ScaledParameters& p, ByteWriter& out) {
  out.u8(static_cast<std::uint8_t>(p.kept));
  out.u8(static_cast<std::uint8_t>(p.step_log2));
  out.u8(static_cast<std::uint8_t>(p.window));
  out.u8(static_cast<std::uint8_t>(p.has_scales | static_cast<unsigned>(p.sign_mode) << 1 |
                                   p.counted << 3 | p.halved << 4 | p.has_zero << 5 |
                                   p.joint << 6));
  if (p.counted) out.u8(static_cast<std::uint8_t>(p.low_count));
  out.varint(p.columns);
  out.varint(p.origin);
  if (p.sign_mode == SignMode::tap) {
    out.varint(p.taps);
    out.varint(p.inner);
  }
}

void read_planes(ByteReader& in, TensorHeader& header) {
  for (std::size_t b = 0; b < header.element_bytes(); ++b) {
    PlaneParameters& plane = header.planes[b];
    plane.mode = static_cast<PlaneMode>(small(in, "plane mode", 0, 2));
    if (plane.mode == PlaneMode::constant) plane.value = in.u8("plane value");
    if (plane.mode == PlaneMode::coded)
      plane.value = static_cast<std::uint8_t>(small(in, "plane table", 0, 15));
  }
}

void write_planes(const TensorHeader& header, ByteWriter& out) {
  for (std::size_t b = 0; b < header.element_bytes(); ++b) {
    out.u8(static_cast<std::uint8_t>(header.planes[b].mode));
    if (header.planes[b].mode != PlaneMode::raw) out.u8(header.planes[b].value);
  }
}

void read_kernels(ByteReader& in, TensorHeader& header) {
  KernelParameters& p = header.kernels;
  if (header.dtype == DType::f64) fail(ErrorKind::corrupt, "pipeline: kernels is not for f64");
  const unsigned fraction = float_format(header.dtype).fraction_bits;
  const unsigned kernel_fraction = header.dtype == DType::f16 ? 10 : 7;
  p.kept = small(in, "kept", kernel_fraction, fraction);
  const std::size_t at = in.offset();
  const unsigned modes = in.u8("modes");
  if (modes & ~8u)
    fail(ErrorKind::corrupt, "modes at byte {}: reserved bits are set ({:#04x})", at, modes);
  p.counted = modes >> 3;
  if (p.counted && p.kept == kernel_fraction)
    fail(ErrorKind::corrupt, "modes at byte {}: counted needs low bits", at);
  if (p.counted) p.low_count = small(in, "low_count", 0, p.kept - kernel_fraction);
  p.taps = ranged(in, "taps", 2, 64);
  p.inner = ranged(in, "inner", 1, kMaxChunkElements / 2);
  const std::uint64_t group = p.taps * p.inner;
  const bool whole = header.elements % group == 0 && (header.chunk_elements % group == 0 ||
                                                      header.elements <= header.chunk_elements);
  if (!whole)
    fail(ErrorKind::corrupt, "taps at byte {}: chunks do not hold whole kernels of {} elements", at,
         group);
}

void write_kernels(const KernelParameters& p, ByteWriter& out) {
  out.u8(static_cast<std::uint8_t>(p.kept));
  out.u8(p.counted ? 8 : 0);
  if (p.counted) out.u8(static_cast<std::uint8_t>(p.low_count));
  out.varint(p.taps);
  out.varint(p.inner);
}

void read_shape(ByteReader& in, TensorHeader& header) {
  const std::size_t at = in.offset();
  const std::uint8_t dtype = in.u8("dtype");
  if (dtype < 1 || dtype > 15)
    fail(ErrorKind::unsupported, "dtype at byte {}: id {} is not known", at, dtype);
  header.dtype = static_cast<DType>(dtype);
  const unsigned ndim = small(in, "ndim", 0, kMaxDimensions);
  const std::uint64_t most = kMaxBytes / header.element_bytes();
  bool empty = false;
  for (unsigned d = 0; d < ndim; ++d) {
    const std::size_t dim_at = in.offset();
    header.dims.push_back(in.varint("dims"));
    empty |= header.dims.back() == 0;
    // A zero anywhere makes the tensor empty, but the other dimensions must not overflow either.
    const std::uint64_t factor = header.dims.back() == 0 ? 1 : header.dims.back();
    if (factor > most / header.elements) {
      fail(ErrorKind::corrupt, "dims at byte {}: the tensor would have 2^62 bytes or more", dim_at);
    }
    header.elements *= factor;
  }
  if (empty) header.elements = 0;
}

}  // namespace

TensorHeader read_tensor_header(ByteReader& in) {
  TensorHeader header;
  read_shape(in, header);
  if (header.elements == 0) {
    in.expect_end("tensor");
    return header;
  }
  const std::size_t at = in.offset();
  const unsigned pipeline = in.u8("pipeline");
  header.pipeline = static_cast<Pipeline>(pipeline);
  if (pipeline > 2 && header.pipeline != Pipeline::lossy)
    fail(ErrorKind::unsupported, "pipeline at byte {}: id {} is not known", at, pipeline);
  if (header.pipeline != Pipeline::planes && !is_float(header.dtype)) {
    fail(ErrorKind::corrupt, "pipeline at byte {}: {} is for floats, the dtype is {}", at, pipeline,
         dtype_name(header.dtype));
  }
  if (header.pipeline == Pipeline::lossy) return header;
  header.chunk_elements =
      static_cast<std::uint32_t>(ranged(in, "chunk_elements", 1, kMaxChunkElements));
  header.streams_log2 = small(in, "streams_log2", 0, kMaxStreamsLog2);
  if (header.pipeline == Pipeline::planes) read_planes(in, header);
  if (header.pipeline == Pipeline::scaled) read_scaled(in, header);
  if (header.pipeline == Pipeline::kernels) read_kernels(in, header);
  in.expect_end("tensor");
  return header;
}

void write_tensor_header(const TensorHeader& header, ByteWriter& out) {
  out.u8(static_cast<std::uint8_t>(header.dtype));
  out.u8(static_cast<std::uint8_t>(header.dims.size()));
  for (const std::uint64_t dim : header.dims) out.varint(dim);
  if (header.elements == 0) return;
  out.u8(static_cast<std::uint8_t>(header.pipeline));
  if (header.pipeline == Pipeline::lossy) return;
  out.varint(header.chunk_elements);
  out.u8(static_cast<std::uint8_t>(header.streams_log2));
  if (header.pipeline == Pipeline::planes) write_planes(header, out);
  if (header.pipeline == Pipeline::scaled) write_scaled(header.scaled, out);
  if (header.pipeline == Pipeline::kernels) write_kernels(header.kernels, out);
}

}  // namespace gradwire::frame
