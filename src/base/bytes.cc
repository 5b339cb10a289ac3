#include "base/bytes.h"

#include <algorithm>
#include <cmath>

#include "base/fail.h"

namespace gradwire {

void ByteWriter::varint(std::uint64_t value) {
  while (value >= 128) {
    out_->push_back(static_cast<std::uint8_t>(value | 128));
    value >>= 7;
  }
  out_->push_back(static_cast<std::uint8_t>(value));
}

std::size_t varint_size(std::uint64_t value) noexcept {
  std::size_t n = 1;
  for (; value >= 128; value >>= 7) ++n;
  return n;
}

ByteSpan ByteReader::bytes(const char* field, std::size_t n) {
  if (n > left()) {
    fail(ErrorKind::truncated, "{} at byte {}: needs {} bytes, {} are left", field, offset(), n,
         left());
  }
  const ByteSpan part = span_.subspan(at_, n);
  at_ += n;
  return part;
}

std::uint64_t ByteReader::varint(const char* field) {
  const std::size_t start = offset();
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 63; shift += 7) {
    const std::uint8_t byte = u8(field);
    value |= static_cast<std::uint64_t>(byte & 127) << shift;
    if (byte < 128) {
      if (byte == 0 && shift > 0) {
        fail(ErrorKind::corrupt, "{} at byte {}: varint is not in its shortest form", field, start);
      }
      return value;
    }
  }
  fail(ErrorKind::corrupt, "{} at byte {}: varint of 2^63 or more", field, start);
}

std::uint64_t ByteReader::count(const char* field, std::uint64_t most) {
  const std::size_t start = offset();
  const std::uint64_t value = varint(field);
  if (value > most) {
    fail(ErrorKind::corrupt, "{} at byte {}: {} found, at most {} allowed", field, start, value,
         most);
  }
  return value;
}

void ByteReader::expect_end(const char* field) const {
  if (left() != 0) {
    fail(ErrorKind::corrupt, "{} at byte {}: {} bytes are left over", field, offset(), left());
  }
}

std::vector<float> read_floats(ByteReader& reader, const char* field, std::size_t n, float limit) {
  const std::size_t at = reader.offset();
  const ByteSpan bytes = reader.bytes(field, n * sizeof(float));
  std::vector<float> values(n);
  if (n != 0) std::memcpy(values.data(), bytes.data(), bytes.size());
  const auto bad =
      std::ranges::find_if(values, [&](float value) { return !(std::fabs(value) < limit); });
  if (bad != values.end())
    fail(ErrorKind::corrupt, "{} at byte {}: value {} is {}", field, at, bad - values.begin(),
         *bad);
  return values;
}

}  // namespace gradwire
