// In: options, dtype and shape, then the bytes of a tensor, which are repeated with small changes
// until it is full. Out: its frame keeps the bound, and decompress gives the same bits back.

#include "fuzz_input.h"
#include "gradwire/frame.h"

namespace {

using namespace gradwire;
using fuzz::expect;

constexpr std::uint64_t kMaxElements = 20000;

CompressOptions draw_options(fuzz::FuzzInput& input) {
  CompressOptions options;
  options.level = static_cast<int>(input.between(1, 3));
  options.coder = static_cast<Coder>(input.between(0, 3));
  options.tables = static_cast<Tables>(input.between(0, 3));
  options.zeros = static_cast<Zeros>(input.between(0, 4));
  const unsigned flags = input.u8();
  options.pairs = (flags & 1) != 0;
  options.checksum = (flags & 2) != 0;
  options.threads = (flags & 4) != 0 ? 2 : 1;
  return options;
}

std::vector<std::uint64_t> draw_shape(fuzz::FuzzInput& input) {
  std::vector<std::uint64_t> shape(input.between(0, 6));
  std::uint64_t product = 1;  // of the dimensions that are not 0
  for (std::uint64_t& dim : shape) {
    dim = input.between(0, kMaxElements / product);
    product *= std::max<std::uint64_t>(dim, 1);
  }
  return shape;
}

/// Neighbours of a tensor are alike: later copies of the input differ from it in their low bits.
Bytes fill(const Bytes& pattern, std::size_t size, unsigned change) {
  Bytes data(size);
  for (std::size_t i = 0; i < size && !pattern.empty(); ++i) {
    const std::size_t turn = i / pattern.size();
    data[i] =
        static_cast<std::uint8_t>(pattern[i % pattern.size()] + (i % 4 == 0 ? turn * change : 0));
  }
  return data;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::FuzzInput input(data, size);
  const CompressOptions options = draw_options(input);
  const auto dtype = static_cast<DType>(input.between(1, 15));
  const std::vector<std::uint64_t> shape = draw_shape(input);
  const unsigned change = input.u8();
  std::uint64_t n = 1;
  for (const std::uint64_t dim : shape) n *= dim;
  const Bytes original = fill(input.rest(), n * element_size(dtype), change);
  const TensorView view{dtype, shape, original};
  const Bytes frame = compress(view, options);
  expect(frame.size() <= compress_bound(dtype, n), "the frame keeps its bound");
  const Bytes copy(frame.begin(), frame.end());  // of exact size
  const Tensor back = decompress(copy);
  expect(back.dtype == dtype && back.shape == shape, "dtype and shape come back");
  expect(back.data == original, "the same bits come back");
  expect(tensor_info(copy).elements == n, "info counts the elements");
  expect(decompress_range(copy, n / 2, n).size() == (n - n / 2) * element_size(dtype),
         "a range has its size");
  return 0;
}
