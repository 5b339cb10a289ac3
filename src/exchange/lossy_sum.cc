#include "exchange/lossy_sum.h"

#include <algorithm>
#include <cmath>

#include "base/clones.h"
#include "base/fail.h"
#include "exchange/lossy_work.h"
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

void LossySum::begin(DType dtype, std::span<const std::uint64_t> shape, std::size_t n,
                     bool is_exact) {
  dtype_ = dtype;
  shape_ = shape;
  ranks_ = 0;
  counts_votes_ = majority_ && !is_exact;
  sum_.assign(n, 0.0F);
  magnitudes_.assign(counts_votes_ ? n : 0, 0.0F);
}

void LossySum::add_next(ByteReader& in) {
  const std::size_t origin = in.offset();
  const ByteSpan bytes = next_body(in);
  ++ranks_;
  if (lossy::is_lossy_body(bytes))
    add_lossy(bytes, origin);
  else
    add_exact(bytes, origin);
  add_values();
}

void LossySum::check(const frame::TensorHeader& header, std::size_t origin) const {
  if (header.dtype != dtype_ || !std::ranges::equal(header.dims, shape_))
    fail(ErrorKind::corrupt, "body at byte {}: another dtype or shape than the tensor's", origin);
}

void LossySum::add_lossy(ByteSpan bytes, std::size_t origin) {
  const lossy::Body body = lossy::read_body(bytes, {.origin = origin}, UINT64_MAX);
  check(body.header, origin);
  lossy::decode_body(body, memory_, decoded_);
}

void LossySum::add_exact(ByteSpan bytes, std::size_t origin) {
  elements_.resize(sum_.size() * element_size(dtype_));
  const frame::TensorBody body = frame::read_tensor_body(bytes, 0, origin, false, elements_.size());
  check(body.header, origin);
  lossless::TensorDecoder(body, false).decode_all(elements_, memory_.scratch);
  decoded_.all = true;
  decoded_.indices.clear();
  decoded_.values.resize(sum_.size());
  lossy::to_floats(elements_, dtype_, decoded_.values);
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
