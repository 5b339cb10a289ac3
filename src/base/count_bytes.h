// How often a byte occurs.
// In: bytes and a value.
// Out: its count.
// Assumes: nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace gradwire {

/// Counts in bytes over blocks of 255, so that the loop runs on whole vectors of bytes.
inline std::size_t count_byte(const std::uint8_t* bytes, std::size_t n,
                              std::uint8_t value) noexcept {
  constexpr std::size_t kLanes = 64;
  constexpr std::size_t kRounds = 255;
  std::size_t total = 0;
  std::size_t i = 0;
  while (n - i >= kLanes) {
    std::uint8_t lanes[kLanes] = {};
    const std::size_t rounds = std::min((n - i) / kLanes, kRounds);
    for (std::size_t r = 0; r < rounds; ++r, i += kLanes) {
      for (std::size_t k = 0; k < kLanes; ++k)
        lanes[k] = static_cast<std::uint8_t>(lanes[k] + (bytes[i + k] == value));
    }
    for (const std::uint8_t lane : lanes) total += lane;
  }
  for (; i < n; ++i) total += bytes[i] == value;
  return total;
}

}  // namespace gradwire
