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

/// Feeds a frame in pieces; it must be accepted if it is accepted as a whole.
void read_in_pieces(const Bytes& frame, bool verify, bool sound, const Bytes& data) {
  Decompressor decompressor({.max_output = kBudget, .verify = verify});
  const std::size_t step = 1 + frame.size() / 5;
  Bytes restored;
  bool complete = false;
  const bool fed = accepted([&] {
    std::size_t at = 0;
    for (bool ended = false; !ended && at < frame.size();) {
      const auto piece = ByteSpan(frame).subspan(at, std::min(step, frame.size() - at));
      at += piece.size();
      ended = decompressor.feed(Bytes(piece.begin(), piece.end()), restored);
    }
    complete = at == frame.size();
    decompressor.finish();
  });
  expect((fed && complete) == sound, "a frame in pieces is sound when the whole one is");
  expect(!sound || restored == data, "a frame in pieces gives the same");
}

void read_single(const Bytes& frame) {
  Tensor tensor;
  const bool sound =
      accepted([&] { tensor = decompress(frame, {.max_output = kBudget, .verify = false}); });
  Tensor verified;
  const bool is_verified = accepted([&] { verified = decompress(frame, {.max_output = kBudget}); });
  expect(!is_verified || (sound && verified.data == tensor.data),
         "a verified tensor is the unverified one");
  read_in_pieces(frame, true, is_verified, verified.data);
  read_in_pieces(frame, false, sound, tensor.data);
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
