// What the calls ask the allocator for: contexts that are used again ask for little, and no call
// holds much more than input and output.

#include <atomic>
#include <cstdlib>
#include <malloc.h>
#include <new>

#include "tensor_testing.h"

namespace {

std::atomic<std::size_t> live_bytes{0};
std::atomic<std::size_t> peak_bytes{0};

void note(void* memory) {
  const std::size_t live = live_bytes += malloc_usable_size(memory);
  std::size_t peak = peak_bytes.load(std::memory_order_relaxed);
  while (live > peak && !peak_bytes.compare_exchange_weak(peak, live)) {
  }
}

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) {
  void* const memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  note(memory);
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  if (memory != nullptr) live_bytes -= malloc_usable_size(memory);
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  operator delete(memory);
}

namespace gradwire::testing {
namespace {

constexpr std::size_t kMebi = std::size_t{1} << 20;

/// Bytes beyond those held before the call.
template <typename Function>
std::size_t peak_of(const Function& function) {
  const std::size_t before = live_bytes;
  peak_bytes = before;
  function();
  return peak_bytes - before;
}

TEST(Contexts, CallsOfASizeSeenBeforeAskForLittleMemory) {
  TensorMaker make(1);
  for (const DType dtype : {DType::f32, DType::bf16, DType::u16}) {
    const Owned tensor = make(dtype, {100, 16, 3, 3}, Content::smooth);
    for (int level = 1; level <= 3; ++level) {
      Compressor compressor({.level = level});
      Bytes frame;
      compressor.compress(tensor.view(), frame);
      const std::size_t again = peak_of([&] { compressor.compress(tensor.view(), frame); });
      EXPECT_LE(again, kMebi) << dtype_name(dtype) << " level " << level;
      Decompressor decompressor;
      Bytes out(tensor.data.size());
      decompressor.decompress_into(frame, out);
      EXPECT_LE(peak_of([&] { decompressor.decompress_into(frame, out); }), kMebi / 4);
    }
  }
}

TEST(Memory, IsInputAndOutputAndSixteenMebibytes) {
  TensorMaker make(2);
  for (const Shape& shape : {Shape{1 << 22}, Shape{2048, 2048}, Shape{16, 1 << 18},
                             Shape{1 << 18, 16}, Shape{1 << 12, 64, 3, 3}}) {
    // A row or column costs some 20 bytes while its scales are fitted: 2^18 lines are 5 MiB.
    const Owned tensor = make(DType::bf16, shape, Content::normal);
    for (const int level : {1, 3}) {
      SCOPED_TRACE(formatted("({}) level {}", fmt::join(shape, ","), level));
      Bytes frame;
      const std::size_t used = peak_of([&] { frame = compress(tensor.view(), {.level = level}); });
      EXPECT_LE(used, frame.size() + 16 * kMebi);
      Bytes out(tensor.data.size());
      EXPECT_LE(peak_of([&] { decompress_into(frame, out); }), 16 * kMebi);
      EXPECT_TRUE(out == tensor.data);
    }
  }
}

}  // namespace
}  // namespace gradwire::testing
