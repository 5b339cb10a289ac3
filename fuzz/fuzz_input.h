// Draws parameters from the front of a fuzz input.
// In: the bytes of an input. Out: numbers in ranges, and what is left. Assumes: nothing; an input
// that has run out gives zeros. `expect` ends the process, which is how an engine sees a finding.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/bytes.h"

namespace gradwire::fuzz {

inline void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

class FuzzInput {
 public:
  FuzzInput(const std::uint8_t* data, std::size_t size) noexcept : left_(data, size) {}

  std::uint8_t u8() noexcept { return static_cast<std::uint8_t>(number(1)); }
  /// From `least` to `most`, by as many bytes as the range needs.
  std::uint64_t between(std::uint64_t least, std::uint64_t most) noexcept {
    std::size_t bytes = 1;
    while (bytes < 8 && (most - least) >> 8 * bytes != 0) ++bytes;
    return least + number(bytes) % (most - least + 1);
  }
  std::int32_t signed_between(std::int32_t least, std::int32_t most) noexcept {
    return least + static_cast<std::int32_t>(
                       between(0, static_cast<std::uint64_t>(std::int64_t{most} - least)));
  }
  bool flag() noexcept { return (u8() & 1) != 0; }
  /// At most n bytes, in memory of exactly their size.
  Bytes bytes(std::size_t n) {
    const ByteSpan part = left_.first(std::min(n, left_.size()));
    left_ = left_.subspan(part.size());
    return {part.begin(), part.end()};
  }
  Bytes rest() { return bytes(left_.size()); }
  std::size_t left() const noexcept { return left_.size(); }

 private:
  std::uint64_t number(std::size_t bytes) noexcept {
    std::uint64_t value = 0;
    bytes = std::min(bytes, left_.size());
    if (bytes > 0) std::memcpy(&value, left_.data(), bytes);
    left_ = left_.subspan(bytes);
    return value;
  }
  ByteSpan left_;
};

}  // namespace gradwire::fuzz
