#include "stages/predict/kernels.h"

#include <cstdlib>

#include "base/fail.h"

namespace gradwire::predict {
namespace {

constexpr std::int32_t kMaxParameter = 65536;

std::int32_t bounded(ByteReader& in, const char* field) {
  const std::size_t at = in.offset();
  const std::int64_t value = unzigzag(in.varint(field));
  if (value < -kMaxParameter || value > kMaxParameter) {
    fail(ErrorKind::corrupt, "{} at byte {}: {} found, -65536 to 65536 allowed", field, at, value);
  }
  return static_cast<std::int32_t>(value);
}

}  // namespace

unsigned kernel_fraction(DType dtype) noexcept { return dtype == DType::f16 ? 10 : 7; }
unsigned kernel_reach(unsigned effort) noexcept { return effort <= 1 ? 16 : effort == 2 ? 24 : 48; }
unsigned kernel_alphabet(unsigned effort) noexcept { return 2 * kernel_reach(effort) + 16; }

Taps read_taps(ByteReader& in, unsigned count) {
  Taps taps;
  const std::size_t at = in.offset();
  taps.effort = in.u8("effort");
  if (taps.effort > 3)
    fail(ErrorKind::corrupt, "effort at byte {}: {} found, at most 3 allowed", at, taps.effort);
  taps.base = bounded(in, "taps base");
  taps.taps.resize(count);
  for (unsigned t = 0; t < count; ++t) {
    Tap& tap = taps.taps[t];
    const std::size_t tap_at = in.offset();
    tap.h = in.u8("h");
    if (tap.h < 1 || tap.h > 24)
      fail(ErrorKind::corrupt, "h at byte {}: {} found, 1 to 24 allowed", tap_at, tap.h);
    tap.tau = bounded(in, "tau");
    std::int32_t sum = 0;
    for (unsigned l = 0; l < t; ++l) {
      tap.coefficients.push_back(static_cast<std::int16_t>(in.u16("coefficients")));
      sum += std::abs(std::int32_t{tap.coefficients.back()});
    }
    if (sum > kMaxCoefficientSum) {
      fail(ErrorKind::corrupt,
           "coefficients at byte {}: absolute values sum to {}, at most {} allowed", tap_at, sum,
           kMaxCoefficientSum);
    }
  }
  in.expect_end("taps");
  return taps;
}

void write_taps(const Taps& taps, ByteWriter& out) {
  out.u8(static_cast<std::uint8_t>(taps.effort));
  out.varint(zigzag(taps.base));
  for (const Tap& tap : taps.taps) {
    out.u8(static_cast<std::uint8_t>(tap.h));
    out.varint(zigzag(tap.tau));
    for (const std::int16_t coefficient : tap.coefficients)
      out.u16(static_cast<std::uint16_t>(coefficient));
  }
}

}  // namespace gradwire::predict
