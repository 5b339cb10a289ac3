// Byte buffers that do not clear what they grow by.
// In: sizes.
// Out: vectors whose new bytes are left as they are.
// Assumes: the user writes before reading.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace gradwire {

/// std::allocator, but elements made without arguments are not initialised.
template <typename T>
struct UninitialisedAllocator : std::allocator<T> {
  template <typename U>
  struct rebind {
    using other = UninitialisedAllocator<U>;
  };
  template <typename U>
  void construct(U* at) noexcept {
    ::new (static_cast<void*>(at)) U;
  }
  template <typename U, typename... Args>
  void construct(U* at, Args&&... args) {
    ::new (static_cast<void*>(at)) U(std::forward<Args>(args)...);
  }
};

using Buffer = std::vector<std::uint8_t, UninitialisedAllocator<std::uint8_t>>;

}  // namespace gradwire
