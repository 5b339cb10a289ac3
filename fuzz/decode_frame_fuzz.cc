// In: any bytes, taken for a frame. Out: the calls that read frames refuse it or agree on what it
// holds.

#include "fuzz_input.h"
#include "gradwire/frame.h"

namespace {

using namespace gradwire;
using fuzz::expect;

constexpr std::uint64_t kBudget = std::uint64_t{1} << 20;

/// True if the call came back without an Error.
template <typename Function>
bool accepted(const Function& function) {
  try {
    function();
    return true;
  } catch (const Error&) {
    return false;
  }
}

void read_single(const Bytes& frame) {
  Tensor tensor;
  const bool sound =
      accepted([&] { tensor = decompress(frame, {.max_output = kBudget, .verify = false}); });
  Tensor verified;
  if (accepted([&] { verified = decompress(frame, {.max_output = kBudget}); })) {
    expect(sound && verified.data == tensor.data, "a verified tensor is the unverified one");
  }
  const bool informed = accepted([&] { tensor_info(frame); });
  if (!sound) return;
  expect(informed, "a frame that decodes can be described");
  std::uint64_t n = tensor.data.size() / element_size(tensor.dtype);
  std::vector<std::uint8_t> part = decompress_range(frame, n / 3, n - n / 5, {.verify = false});
  const std::size_t width = element_size(tensor.dtype);
  expect(part.size() == (n - n / 5 - n / 3) * width, "a range has its size");
  expect(std::equal(part.begin(), part.end(),
                    tensor.data.begin() + static_cast<std::ptrdiff_t>(n / 3 * width)),
         "a range is a slice");
  std::vector<std::uint8_t> into(tensor.data.size());
  decompress_into(frame, into, {.verify = false, .threads = 2});
  expect(into == tensor.data, "decompress_into gives the same");
  Decompressor decompressor({.max_output = kBudget, .verify = false});
  std::vector<std::uint8_t> fed;
  const ByteSpan bytes(frame);
  expect(!decompressor.feed(bytes.first(frame.size() / 2), fed), "half a frame is not complete");
  expect(decompressor.feed(bytes.subspan(frame.size() / 2), fed) && fed == tensor.data,
         "a fed frame gives the same");
}

void read_archive(const Bytes& frame, bool verify) {
  accepted([&] {
    const ArchiveReader reader(frame, {.max_output = kBudget, .verify = verify});
    const std::size_t some = std::min<std::size_t>(reader.size(), 20);
    for (std::size_t k = 0; k < some; ++k) {
      expect(reader.find(reader.name(k)) == k, "a name finds its tensor");
      accepted([&] { reader.info(k); });
      accepted([&] { reader.range(k, 0, 1); });
      accepted([&] { reader.tensor(k); });
    }
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes frame(data, data + size);
  accepted([&] { frame_size(frame); });
  read_single(frame);
  read_archive(frame, false);
  read_archive(frame, true);
  return 0;
}
