// Byte-level reading and writing of wire integers.
// In: bytes of a frame, or integers to put there.
// Out: integers, or bytes appended to a buffer.
// Assumes: nothing of the input; every read is checked and names its field when it fails.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <ranges>
#include <span>
#include <vector>

#include "gradwire/error.h"

namespace gradwire {

static_assert(std::endian::native == std::endian::little, "the kernels load wire words in place");

using Bytes = std::vector<std::uint8_t>;
using ByteSpan = std::span<const std::uint8_t>;

template <typename T>
T load(const std::uint8_t* src) noexcept {
  T value;
  std::memcpy(&value, src, sizeof value);
  return value;
}

template <typename T>
void store(std::uint8_t* dst, T value) noexcept {
  std::memcpy(dst, &value, sizeof value);
}

/// What lies in a vector, a span, a string.
template <std::ranges::contiguous_range R>
ByteSpan bytes_of(const R& range) noexcept {
  return {reinterpret_cast<const std::uint8_t*>(std::ranges::data(range)),
          std::ranges::size(range) * sizeof(std::ranges::range_value_t<R>)};
}

constexpr std::uint64_t zigzag(std::int64_t value) noexcept {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}
constexpr std::int64_t unzigzag(std::uint64_t value) noexcept {
  return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

/// Appends wire integers to a byte vector (which keeps its capacity between uses).
class ByteWriter {
 public:
  explicit ByteWriter(Bytes& out) noexcept : out_(&out) {}
  void u8(std::uint8_t value) { out_->push_back(value); }
  void u16(std::uint16_t value) { fixed(value); }
  void u32(std::uint32_t value) { fixed(value); }
  void u64(std::uint64_t value) { fixed(value); }
  void varint(std::uint64_t value);
  void bytes(ByteSpan span) { out_->insert(out_->end(), span.begin(), span.end()); }
  std::size_t size() const noexcept { return out_->size(); }

 private:
  template <typename T>
  void fixed(T value) {
    const std::size_t at = out_->size();
    out_->resize(at + sizeof value);
    store(out_->data() + at, value);
  }
  Bytes* out_;
};

/// Bytes that `varint(value)` takes, 1 to 9.
std::size_t varint_size(std::uint64_t value) noexcept;

/// Reads wire integers; throws `truncated` at the end of the span and `corrupt` for a varint that
/// is not the shortest form or is 2^63 or more. `origin` is the span's offset in the frame, for
/// messages.
class ByteReader {
 public:
  explicit ByteReader(ByteSpan span, std::size_t origin = 0) noexcept
      : span_(span), origin_(origin) {}
  std::uint8_t u8(const char* field) { return fixed<std::uint8_t>(field); }
  std::uint16_t u16(const char* field) { return fixed<std::uint16_t>(field); }
  std::uint32_t u32(const char* field) { return fixed<std::uint32_t>(field); }
  std::uint64_t u64(const char* field) { return fixed<std::uint64_t>(field); }
  std::uint64_t varint(const char* field);
  /// A varint that must be at most `most`, else `corrupt`.
  std::uint64_t count(const char* field, std::uint64_t most);
  ByteSpan bytes(const char* field, std::size_t n);
  ByteSpan rest() noexcept { return span_.subspan(at_); }
  std::size_t left() const noexcept { return span_.size() - at_; }
  std::size_t offset() const noexcept { return origin_ + at_; }
  /// Demands that nothing is left: `corrupt` otherwise.
  void expect_end(const char* field) const;

 private:
  template <typename T>
  T fixed(const char* field) {
    return load<T>(bytes(field, sizeof(T)).data());
  }
  ByteSpan span_;
  std::size_t at_ = 0;
  std::size_t origin_;
};

/// n values of f32. Throws `corrupt`, with the place, for one whose magnitude is not below `limit`.
std::vector<float> read_floats(ByteReader& reader, const char* field, std::size_t n,
                               float limit = std::numeric_limits<float>::infinity());

}  // namespace gradwire
