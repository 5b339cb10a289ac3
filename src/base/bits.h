// Bit streams, least significant bit first: bit i of a stream is bit i & 7 of byte i >> 3.
// In: values of 0 to 56 bits.
// Out: bytes; the unused bits of the last byte are zero.
// Assumes: a writer has 8 bytes of room behind its end. BitReader checks every read.
#pragma once

#include "base/bytes.h"

namespace gradwire {

/// Writes into a caller's buffer, which must have room for all bits + 8 bytes.
class BitWriter {
 public:
  explicit BitWriter(std::uint8_t* dst) noexcept : start_(dst), at_(dst) {}
  /// value < 2^bits, bits <= 56.
  void put(std::uint64_t value, unsigned bits) noexcept {
    pending_ |= value << count_;
    count_ += bits;
    store(at_, pending_);
    at_ += count_ >> 3;
    pending_ = pending_ >> (count_ & 56u);
    count_ &= 7;
  }
  /// Bytes used, the last one padded with zeros.
  std::size_t finish() noexcept {
    store(at_, pending_);
    return static_cast<std::size_t>(at_ - start_) + (count_ != 0);
  }

 private:
  std::uint8_t* start_;
  std::uint8_t* at_;
  std::uint64_t pending_ = 0;
  unsigned count_ = 0;
};

/// `count` bits 1 and then one bit 0 if `closed`: the number in unary.
inline void put_ones(BitWriter& out, std::uint32_t count, bool closed) noexcept {
  constexpr unsigned kRun = 32;  // that are put at once
  for (; count > kRun; count -= kRun) out.put((std::uint64_t{1} << kRun) - 1, kRun);
  out.put((std::uint64_t{1} << count) - 1, count + closed);
}

/// Reads from a span and never past it: bits beyond the end read as zero and are seen by `overrun`.
class BitReader {
 public:
  explicit BitReader(ByteSpan span) noexcept : span_(span) {}
  /// The next `bits` (at most 56), not consumed.
  std::uint64_t peek(unsigned bits) const noexcept {
    const std::size_t byte = position_ >> 3;
    std::uint64_t word = 0;
    if (byte + 8 <= span_.size()) {
      word = load<std::uint64_t>(span_.data() + byte);
    } else if (byte < span_.size()) {
      std::memcpy(&word, span_.data() + byte, span_.size() - byte);
    }
    return (word >> (position_ & 7)) & ((std::uint64_t{1} << bits) - 1);
  }
  void skip(unsigned bits) noexcept { position_ += bits; }
  std::uint64_t get(unsigned bits) noexcept {
    const std::uint64_t value = peek(bits);
    skip(bits);
    return value;
  }
  std::size_t position() const noexcept { return position_; }
  bool overrun() const noexcept { return position_ > span_.size() * 8; }
  /// True when the stream ends in the span's last byte and its padding is zero.
  bool at_exact_end() const noexcept {
    return (position_ + 7) / 8 == span_.size() && peek((8 - (position_ & 7)) & 7) == 0;
  }

 private:
  ByteSpan span_;
  std::size_t position_ = 0;
};

/// Bytes that may be read behind a span that a SlackBitReader is given.
inline constexpr std::size_t kBitSlack = 8;

/// As BitReader, for spans with kBitSlack readable bytes behind them: no branch a read. Positions
/// beyond the end read whatever stands at the end, and are seen by at_exact_end.
class SlackBitReader {
 public:
  explicit SlackBitReader(ByteSpan span) noexcept : data_(span.data()), size_(span.size()) {}
  /// The next 57 bits or more, not consumed.
  std::uint64_t window() const noexcept {
    const std::size_t byte = position_ >> 3;
    return load<std::uint64_t>(data_ + (byte < size_ ? byte : size_)) >> (position_ & 7);
  }
  void skip(unsigned bits) noexcept { position_ += bits; }
  std::uint64_t get(unsigned bits) noexcept {
    const std::uint64_t value = window() & ((std::uint64_t{1} << bits) - 1);
    skip(bits);
    return value;
  }
  bool at_exact_end() const noexcept {
    if ((position_ + 7) / 8 != size_) return false;
    return (position_ & 7) == 0 || data_[position_ >> 3] >> (position_ & 7) == 0;
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t position_ = 0;
};

}  // namespace gradwire
