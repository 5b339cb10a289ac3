#include "exchange/wire.h"

#include "base/fail.h"
#include "base/hash.h"

namespace gradwire::exchange {
namespace {

constexpr std::uint32_t kMagic = 0x31585747;  // "GWX1"

/// Over the header behind the check itself, and over what both sides know without it.
std::uint32_t header_check(const std::uint8_t* header, const Place& place) {
  std::uint8_t known[20];
  store(known, kMagic);
  store(known + 4, place.from);
  store(known + 8, place.to);
  store(known + 12, place.agreement);
  return static_cast<std::uint32_t>(hash64({header + 4, kPieceHeader - 4}, hash64(known)));
}

void expect(const char* field, std::uint64_t found, std::uint64_t wanted, const Place& place) {
  if (found == wanted) return;
  fail(ErrorKind::transport,
       "{}: {} found, {} expected in message {} of bucket {}, step {}: the ranks are not at the "
       "same place",
       field, found, wanted, place.message, place.bucket, place.step);
}

}  // namespace

void write_header(const PieceHeader& header, std::uint8_t* dst) {
  store(dst + 4, header.place.bucket);
  store(dst + 8, header.place.step);
  store(dst + 12, header.place.message);
  dst[16] = header.place.phase;
  dst[17] = header.status;
  store(dst + 18, std::uint16_t{0});
  store(dst + 20, header.length);
  for (std::size_t k = 0; k < kAhead; ++k) store(dst + 24 + 4 * k, header.ahead[k]);
  store(dst + 40, header.checksum);
  store(dst, header_check(dst, header.place));
}

PieceHeader read_header(ByteSpan bytes, const Place& expected) {
  ByteReader in(bytes);
  if (in.u32("check") != header_check(bytes.data(), expected)) {
    fail(ErrorKind::corrupt,
         "message {} of bucket {}, step {}: its header is damaged, or not from rank {} to rank {} "
         "under the same settings and version",
         expected.message, expected.bucket, expected.step, expected.from, expected.to);
  }
  expect("bucket", in.u32("bucket"), expected.bucket, expected);
  expect("step", in.u32("step"), expected.step, expected);
  expect("message", in.u32("message"), expected.message, expected);
  expect("phase", in.u8("phase"), expected.phase, expected);
  PieceHeader header;
  header.place = expected;
  header.status = in.u8("status");
  expect("reserved", in.u16("reserved"), 0, expected);
  header.length = in.u32("length");
  for (std::uint32_t& length : header.ahead) length = in.u32("ahead");
  header.checksum = in.u64("checksum");
  return header;
}

}  // namespace gradwire::exchange
