// In: which decoder, its parameters, then its bytes. Out: tables, sequences, integer arrays, byte
// arrays and flag maps are refused, or come back from an encoder the same.

#include "fuzz_input.h"
#include "stages/entropy/integer_array.h"
#include "stages/entropy/sequence.h"
#include "stages/entropy/table.h"

namespace {

using namespace gradwire;
using namespace gradwire::entropy;
using fuzz::expect;

constexpr std::size_t kMaxCount = 5000;

void read_sequence(fuzz::FuzzInput& input) {
  const auto alphabet = static_cast<unsigned>(input.between(1, 256));
  const auto streams_log2 = static_cast<unsigned>(input.between(0, kMaxStreamsLog2));
  const auto n = static_cast<std::size_t>(input.between(0, kMaxCount));
  const Bytes bytes = input.rest();
  ByteReader in(bytes);
  Table table = read_table(in);
  resolve(table, alphabet, "fuzz");
  std::vector<std::uint16_t> sizes(stream_count(table, streams_log2));
  for (std::uint16_t& size : sizes) size = in.left() < 2 ? std::uint16_t{0} : in.u16("size");
  const ByteSpan rest = in.rest();
  std::size_t total = 0;
  for (std::uint16_t& size : sizes) {
    size = static_cast<std::uint16_t>(std::min<std::size_t>(size, rest.size() - total));
    total += size;
  }
  Bytes streams(total + kReadSlack, 0xA5);
  std::copy_n(rest.begin(), total, streams.begin());
  Bytes symbols(n, 0xEE);
  if (!make_decoder(table)->decode(streams.data(), sizes, n, streams_log2, symbols.data())) return;
  for (const std::uint8_t symbol : symbols)
    expect(symbol < alphabet, "symbols are of the alphabet");
  Bytes again(encode_room(n));
  std::vector<std::uint16_t> again_sizes(sizes.size());
  const std::size_t written = make_encoder(table)->encode(symbols.data(), n, streams_log2,
                                                          again.data(), again_sizes.data());
  expect(written != SIZE_MAX, "what was decoded fits");
  again.resize(written + kReadSlack);
  Bytes back(n, 0xDD);
  expect(make_decoder(table)->decode(again.data(), again_sizes, n, streams_log2, back.data()),
         "an encoder's streams decode");
  expect(back == symbols, "symbols come back");
}

void read_integer_array(fuzz::FuzzInput& input) {
  const auto count = static_cast<std::size_t>(input.between(0, kMaxCount));
  const std::int32_t low = input.signed_between(-65536, 65536);
  const std::int32_t high =
      input.flag() ? INT32_MAX : std::max(low, input.signed_between(-65536, 65536));
  const Bytes bytes = input.rest();
  ByteReader in(bytes);
  std::vector<std::int32_t> values(count);
  read_integers(in, values, low, high, "fuzz");
  for (const std::int32_t value : values)
    expect(value >= low && value <= high, "values are in range");
  Bytes written;
  ByteWriter out(written);
  write_integers(values, out);
  const Bytes exact(written.begin(), written.end());
  ByteReader again(exact);
  std::vector<std::int32_t> back(count);
  read_integers(again, back, low, high, "fuzz");
  again.expect_end("fuzz");
  expect(back == values, "integers come back");
}

template <typename Read, typename Write>
void read_small(fuzz::FuzzInput& input, const Read& read, const Write& write) {
  const auto count = static_cast<std::size_t>(input.between(0, kMaxCount));
  const Bytes bytes = input.rest();
  ByteReader in(bytes);
  Bytes values(count);
  read(in, values);
  Bytes written;
  ByteWriter out(written);
  write(values, out);
  const Bytes exact(written.begin(), written.end());
  ByteReader again(exact);
  Bytes back(count);
  read(again, back);
  again.expect_end("fuzz");
  expect(back == values, "bytes come back");
}

void decode(fuzz::FuzzInput& input) {
  switch (input.between(0, 3)) {
    case 0:
      return read_sequence(input);
    case 1:
      return read_integer_array(input);
    case 2:
      return read_small(
          input, [](ByteReader& in, Bytes& values) { read_bytes(in, values, "fuzz"); },
          [](const Bytes& values, ByteWriter& out) { write_bytes(values, out); });
    default:
      return read_small(
          input,
          [](ByteReader& in, Bytes& flags) {
            read_flags(in, flags, "fuzz");
            for (const std::uint8_t flag : flags) expect(flag <= 1, "flags are 0 or 1");
          },
          [](const Bytes& flags, ByteWriter& out) { write_flags(flags, out); });
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::FuzzInput input(data, size);
  try {
    decode(input);
  } catch (const Error&) {
  }
  return 0;
}
