#include "stages/entropy/rice.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/bits.h"
#include "base/fail.h"

namespace gradwire::entropy {
namespace {

constexpr unsigned kMaxLowBits = 31;
constexpr unsigned kRun = 32;  ///< ones that are looked at together

std::size_t bytes_of(std::uint64_t bits) noexcept {
  return static_cast<std::size_t>((bits + 7) / 8);
}

/// Bits of all values with this many low ones.
std::uint64_t stream_bits(std::span<const std::int32_t> values, std::int32_t least,
                          unsigned low_bits) {
  std::uint64_t high = 0;
  for (const std::int32_t value : values)
    high += static_cast<std::uint32_t>(value - least) >> low_bits;
  return high + values.size() * (low_bits + 1);
}

/// Ones up to the next zero, which is consumed; stops behind the end of the stream.
std::uint64_t get_ones(BitReader& in) {
  std::uint64_t count = 0;
  while (!in.overrun()) {
    const auto ones = static_cast<unsigned>(std::countr_one(in.peek(kRun)));
    if (ones < kRun) {
      in.skip(ones + 1);
      return count + ones;
    }
    in.skip(kRun);
    count += kRun;
  }
  return count;
}

}  // namespace

std::size_t RiceCode::bytes() const noexcept {
  return varint_size(zigzag(least)) + 1 + varint_size(bytes_of(bits)) + bytes_of(bits);
}

RiceCode choose_rice(std::span<const std::int32_t> values) {
  const std::int32_t least = *std::min_element(values.begin(), values.end());
  std::uint64_t sum = 0;
  for (const std::int32_t value : values) sum += static_cast<std::uint32_t>(value - least);
  // The mean's logarithm is the best number of bits to within one.
  const auto about =
      static_cast<unsigned>(std::bit_width((sum + values.size() - 1) / values.size()));
  RiceCode best{least, kMaxLowBits, UINT64_MAX};
  for (unsigned low = about < 2 ? 0 : about - 2; low <= std::min(about, kMaxLowBits); ++low) {
    const std::uint64_t bits = stream_bits(values, least, low);
    if (bits < best.bits) best = {least, low, bits};
  }
  return best;
}

void write_rice(std::span<const std::int32_t> values, const RiceCode& code, ByteWriter& out) {
  out.varint(zigzag(code.least));
  out.u8(static_cast<std::uint8_t>(code.low_bits));
  Bytes stream(bytes_of(code.bits) + 8);
  BitWriter bits(stream.data());
  const std::uint32_t mask = (std::uint32_t{1} << code.low_bits) - 1;
  for (const std::int32_t value : values) {
    const auto t = static_cast<std::uint32_t>(value - code.least);
    put_ones(bits, t >> code.low_bits, true);
    bits.put(t & mask, code.low_bits);
  }
  stream.resize(bits.finish());
  out.varint(stream.size());
  out.bytes(stream);
}

void read_rice(ByteReader& in, std::span<std::int32_t> values, std::int32_t low, std::int32_t high,
               const char* field) {
  const std::size_t start = in.offset();
  const std::int64_t least = unzigzag(in.varint(field));
  const unsigned low_bits = in.u8(field);
  if (low_bits > kMaxLowBits)
    fail(ErrorKind::corrupt, "{} at byte {}: {} low bits found, at most {} allowed", field, start,
         low_bits, kMaxLowBits);
  const auto size = static_cast<std::size_t>(in.count(field, in.left()));
  if (size < bytes_of(values.size() * (low_bits + 1)))
    fail(ErrorKind::corrupt, "{} at byte {}: a stream of {} bytes is too short for {} values",
         field, start, size, values.size());
  BitReader bits(in.bytes(field, size));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t ones = std::min<std::uint64_t>(get_ones(bits), UINT32_MAX);
    const std::uint64_t t = ones << low_bits | bits.get(low_bits);
    // |least| is at most 2^62, so that no sum overflows.
    const std::int64_t value = least + static_cast<std::int64_t>(t & UINT32_MAX);
    if (t > UINT32_MAX || value < low || value > high)
      fail(ErrorKind::corrupt, "{} at byte {}: value {} is beyond {} to {}", field, start, i, low,
           high);
    values[i] = static_cast<std::int32_t>(value);
  }
  if (!bits.at_exact_end())
    fail(ErrorKind::corrupt, "{} at byte {}: the stream does not hold exactly {} values", field,
         start, values.size());
}

}  // namespace gradwire::entropy
