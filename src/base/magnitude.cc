#include "base/magnitude.h"

#include <algorithm>
#include <bit>

#include "base/clones.h"

namespace gradwire {
namespace {

GRADWIRE_CLONES std::int32_t largest(const float* values, std::size_t n) noexcept {
  std::int32_t most = 0;
  for (std::size_t i = 0; i < n; ++i)
    most = std::max(most, std::bit_cast<std::int32_t>(values[i]) & 0x7fffffff);
  return most;
}

}  // namespace

std::uint32_t largest_magnitude_bits(std::span<const float> values) noexcept {
  return static_cast<std::uint32_t>(largest(values.data(), values.size()));
}

}  // namespace gradwire
