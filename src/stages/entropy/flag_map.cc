#include <algorithm>

#include "base/fail.h"
#include "stages/entropy/integer_array.h"

namespace gradwire::entropy {
namespace {

enum Kind : std::uint8_t { kBitmap = 1, kRuns = 2 };

// --- bitmap ----------------------------------------------------------------------

/// Eight flags, one a byte, to the bits of a byte: byte k is moved to bit 56 + k of the product,
/// and no two of its terms meet.
std::uint8_t pack(std::uint64_t flags) {
  return static_cast<std::uint8_t>(flags * 0x0102040810204080 >> 56);
}

/// The bits of a byte to eight flags: byte k keeps bit k only, then any that is not 0 becomes 1.
std::uint64_t unpack(std::uint8_t bits) {
  const std::uint64_t kept = bits * 0x0101010101010101u & 0x8040201008040201u;
  return (kept + 0x7f7f7f7f7f7f7f7fu) >> 7 & 0x0101010101010101u;
}

void write_bitmap(std::span<const std::uint8_t> flags, ByteWriter& out) {
  const std::size_t whole = flags.size() / 8;
  Bytes bitmap((flags.size() + 7) / 8);
  for (std::size_t i = 0; i < whole; ++i) bitmap[i] = pack(load<std::uint64_t>(&flags[8 * i]));
  for (std::size_t i = 8 * whole; i < flags.size(); ++i) {
    bitmap[whole] = static_cast<std::uint8_t>(bitmap[whole] | flags[i] << (i & 7));
  }
  out.u8(kBitmap);
  write_bytes(bitmap, out);
}

void read_bitmap(ByteReader& in, std::span<std::uint8_t> flags, const char* field) {
  const std::size_t start = in.offset();
  const std::size_t whole = flags.size() / 8;
  Bytes bitmap((flags.size() + 7) / 8);
  read_bytes(in, bitmap, field);
  for (std::size_t i = 0; i < whole; ++i) store(&flags[8 * i], unpack(bitmap[i]));
  for (std::size_t i = 8 * whole; i < flags.size(); ++i) flags[i] = bitmap[whole] >> (i & 7) & 1;
  if (flags.size() % 8 != 0 && bitmap[whole] >> (flags.size() % 8) != 0) {
    fail(ErrorKind::corrupt, "{} at byte {}: bits behind the last flag are not zero", field, start);
  }
}

// --- runs --------------------------------------------------------------------------

struct Runs {
  std::vector<std::int32_t> distances;
  std::vector<std::int32_t> lengths;
};

Runs runs_of(std::span<const std::uint8_t> flags) {
  Runs runs;
  auto at = flags.begin();
  for (;;) {
    const auto begin = std::find(at, flags.end(), 1);
    if (begin == flags.end()) return runs;
    const auto end = std::find(begin, flags.end(), 0);
    runs.distances.push_back(static_cast<std::int32_t>(begin - at));
    runs.lengths.push_back(static_cast<std::int32_t>(end - begin));
    at = end;
  }
}

std::size_t count_runs(std::span<const std::uint8_t> flags) {
  std::size_t count = 0;
  std::uint8_t previous = 0;
  for (const std::uint8_t flag : flags) {
    count += flag & ~previous;
    previous = flag;
  }
  return count;
}

/// A coded bitmap comes close to the entropy, but for its bit a byte at least. Runs can only win
/// below that, where they are rare; trying them elsewhere would take longer than all the rest.
bool may_be_shorter_as_runs(std::span<const std::uint8_t> flags) {
  return count_runs(flags) <= flags.size() / 24 + 8;
}

void write_runs(const Runs& runs, ByteWriter& out) {
  out.u8(kRuns);
  out.varint(runs.lengths.size());
  write_integers(runs.distances, out);
  write_integers(runs.lengths, out);
}

void read_runs(ByteReader& in, std::span<std::uint8_t> flags, const char* field) {
  const std::size_t start = in.offset();
  const auto most = static_cast<std::int32_t>(std::min<std::size_t>(flags.size(), INT32_MAX));
  const auto count = static_cast<std::size_t>(in.count(field, (flags.size() + 1) / 2));
  Runs runs{std::vector<std::int32_t>(count), std::vector<std::int32_t>(count)};
  read_integers(in, runs.distances, 0, most, field);
  read_integers(in, runs.lengths, 1, most, field);
  std::fill(flags.begin(), flags.end(), std::uint8_t{0});
  std::size_t at = 0;
  for (std::size_t k = 0; k < count; ++k) {
    const auto distance = static_cast<std::size_t>(runs.distances[k]);
    const auto length = static_cast<std::size_t>(runs.lengths[k]);
    if (distance == 0 && k > 0) {
      fail(ErrorKind::corrupt, "{} at byte {}: run {} touches the one before it", field, start, k);
    }
    if (distance + length > flags.size() - at) {
      fail(ErrorKind::corrupt, "{} at byte {}: run {} ends at flag {}, there are {}", field, start,
           k, at + distance + length, flags.size());
    }
    std::fill_n(flags.begin() + static_cast<std::ptrdiff_t>(at + distance), length,
                std::uint8_t{1});
    at += distance + length;
  }
}

}  // namespace

void write_flags(std::span<const std::uint8_t> flags, ByteWriter& out) {
  Bytes bitmap;
  ByteWriter bitmap_out(bitmap);
  write_bitmap(flags, bitmap_out);
  Bytes runs;
  ByteWriter runs_out(runs);
  if (may_be_shorter_as_runs(flags)) write_runs(runs_of(flags), runs_out);
  out.bytes(!runs.empty() && runs.size() < bitmap.size() ? runs : bitmap);
}

void read_flags(ByteReader& in, std::span<std::uint8_t> flags, const char* field) {
  const std::size_t start = in.offset();
  const unsigned kind = in.u8(field);
  if (kind == kBitmap) {
    read_bitmap(in, flags, field);
  } else if (kind == kRuns) {
    read_runs(in, flags, field);
  } else {
    fail(ErrorKind::corrupt, "{} at byte {}: kind {} found, allowed are 1 and 2", field, start,
         kind);
  }
}

}  // namespace gradwire::entropy
