#include "exchange/lossy_sum.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/clones.h"
#include "base/fail.h"
#include "base/half.h"
#include "lossless/tensor_decoder.h"

namespace gradwire::exchange {
namespace {

GRADWIRE_CLONES void add_floats(const float* values, std::size_t n, float* sum) noexcept {
  for (std::size_t i = 0; i < n; ++i) sum[i] += values[i];
}

/// Votes of -1, 0 and 1, and magnitudes.
GRADWIRE_CLONES void add_votes(const float* values, std::size_t n, float* votes,
                               float* magnitudes) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    votes[i] +=
        static_cast<float>(static_cast<int>(values[i] > 0) - static_cast<int>(values[i] < 0));
    magnitudes[i] += std::fabs(values[i]);
  }
}

GRADWIRE_CLONES void scale(float* values, std::size_t n, float factor) noexcept {
  for (std::size_t i = 0; i < n; ++i) values[i] *= factor;
}

GRADWIRE_CLONES void sign_by_votes(const float* magnitudes, std::size_t n, float factor,
                                   float* votes) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    const float sign =
        static_cast<float>(static_cast<int>(votes[i] > 0) - static_cast<int>(votes[i] < 0));
    votes[i] = sign * magnitudes[i] * factor;
  }
}

}  // namespace

std::span<const float> as_floats(const std::uint8_t* elements, DType dtype, std::size_t n,
                                 std::vector<float>& room) {
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(elements) % alignof(float) == 0;
  if (dtype == DType::f32 && is_aligned) return {reinterpret_cast<const float*>(elements), n};
  room.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    if (dtype == DType::f32) room[i] = load<float>(elements + 4 * i);
    if (dtype == DType::bf16) room[i] = from_bf16(load<std::uint16_t>(elements + 2 * i));
    if (dtype == DType::f16) room[i] = from_f16(load<std::uint16_t>(elements + 2 * i));
  }
  return room;
}

void from_floats(std::span<const float> values, DType dtype, std::uint8_t* elements) {
  if (dtype == DType::f32) {
    if (!values.empty()) std::memcpy(elements, values.data(), values.size_bytes());
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    store(elements + 2 * i, lossy::to_half(values[i], dtype));
}

void LossySum::begin(DType dtype, std::span<const std::uint64_t> shape, std::size_t n,
                     bool is_exact) {
  dtype_ = dtype;
  shape_ = shape;
  ranks_ = 0;
  counts_votes_ = majority_ && !is_exact;
  sum_.assign(n, 0.0F);
  magnitudes_.assign(counts_votes_ ? n : 0, 0.0F);
}

void LossySum::add(ByteSpan bytes, std::size_t origin) {
  ++ranks_;
  if (!lossy::is_lossy_body(bytes)) return add_exact(bytes, origin);
  const lossy::Body body = lossy::read_body(bytes, {.origin = origin}, UINT64_MAX);
  if (body.header.dtype != dtype_ || !std::ranges::equal(body.header.dims, shape_))
    fail(ErrorKind::corrupt, "body at byte {}: another dtype or shape than the tensor's", origin);
  lossy::decode_body(body, memory_, decoded_);
  add_values();
}

void LossySum::add_exact(ByteSpan bytes, std::size_t origin) {
  const std::size_t width = element_size(dtype_);
  const frame::TensorBody body =
      frame::read_tensor_body(bytes, 0, origin, false, sum_.size() * width);
  if (body.header.dtype != dtype_ || !std::ranges::equal(body.header.dims, shape_))
    fail(ErrorKind::corrupt, "body at byte {}: another dtype or shape than the tensor's", origin);
  elements_.resize(sum_.size() * width);
  const lossless::TensorDecoder decoder(body, false);
  const std::size_t chunk = body.header.chunk_elements * width;
  for (std::uint64_t c = 0; c < body.header.chunk_count(); ++c)
    decoder.decode_chunk(c, {elements_.data() + c * chunk, body.header.chunk_size(c) * width},
                         memory_.scratch);
  const std::span<const float> values = as_floats(elements_.data(), dtype_, sum_.size(), room_);
  decoded_.all = true;
  decoded_.indices.clear();
  decoded_.values.assign(values.begin(), values.end());
  add_values();
}

void LossySum::add_values() {
  const std::vector<float>& values = decoded_.values;
  if (!decoded_.all) {  // no method of indices counts votes
    for (std::size_t i = 0; i < values.size(); ++i) sum_[decoded_.indices[i]] += values[i];
  } else if (counts_votes_) {
    add_votes(values.data(), values.size(), sum_.data(), magnitudes_.data());
  } else {
    add_floats(values.data(), values.size(), sum_.data());
  }
}

std::span<float> LossySum::mean() {
  const float factor = 1.0F / static_cast<float>(ranks_);
  if (counts_votes_) {
    sign_by_votes(magnitudes_.data(), sum_.size(), factor, sum_.data());
  } else {
    scale(sum_.data(), sum_.size(), factor);
  }
  return sum_;
}

}  // namespace gradwire::exchange
