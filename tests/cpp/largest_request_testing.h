// The largest request of memory since a test set it to 0. Replaces the operators new and delete of
// the whole test, so only its one source file may include this.
#pragma once

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::size_t> largest_request{0};
}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) {
  std::size_t seen = largest_request.load(std::memory_order_relaxed);
  while (size > seen && !largest_request.compare_exchange_weak(seen, size)) {
  }
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
