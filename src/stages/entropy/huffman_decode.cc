#include <algorithm>
#include <bit>
#include <cassert>

#include "base/bits.h"
#include "base/unroll.h"
#include "stages/entropy/huffman.h"

namespace gradwire::entropy {
namespace {

constexpr unsigned kLookupBits = kMaxCodeLength;
constexpr std::uint64_t kLookupMask = (1u << kLookupBits) - 1;
/// Lookups for one load of 64 bits, of which up to 7 lie before the position.
constexpr unsigned kLookups = 57 / kLookupBits;
constexpr unsigned kMaxEntrySymbols = 6;
constexpr unsigned kMaxRoundSymbols = kLookups * kMaxEntrySymbols;
constexpr unsigned kMaxRoundBits = kLookups * kLookupBits;
/// Bytes behind `out` that one round may write to: the last of its 8-byte stores included.
constexpr std::size_t kRoundRoom = (kLookups - 1) * kMaxEntrySymbols + 8;
/// Streams in flight: what 16 general registers can hold.
constexpr unsigned kMaxLanes = 4;

using Lane = HuffmanDecoder::Lane;

// --- table ---------------------------------------------------------------------

constexpr std::uint64_t kEntrySymbols = 0x00ffffffffffff00;

constexpr std::uint64_t entry_bits(std::uint64_t entry) { return entry & 255; }
constexpr std::uint64_t entry_count(std::uint64_t entry) { return entry >> 56; }

/// Appends `tail` to an entry; their symbols must fit.
constexpr std::uint64_t append(std::uint64_t entry, std::uint64_t tail) {
  return entry + (tail & ~kEntrySymbols) + ((tail & kEntrySymbols) << (8 * entry_count(entry)));
}

/// Builds the lookup table: an entry of t bits is its first code's, followed by the entry of the
/// t - length bits that are left.
class TableBuilder {
 public:
  TableBuilder(const Values& lengths, bool pairs) : unit_(pairs ? 2 : 1) {
    const auto codes = canonical_codes(lengths);
    for (std::size_t s = 0; s < kMaxSymbols; ++s) {
      if (lengths[s] == 0) continue;
      const std::uint64_t symbols = pairs ? (s & 15) | (s >> 4) << 8 : s;
      const std::uint64_t entry = lengths[s] | symbols << 8 | std::uint64_t{unit_} << 56;
      for (std::size_t i = codes[s]; i <= kLookupMask; i += std::size_t{1} << lengths[s]) {
        first_[i] = entry;
      }
    }
  }

  void build(std::uint64_t* table) {
    // The entries of t < 11 bits stand at 2^t of shorter_; the one of no bits is empty.
    shorter_[1] = 0;
    for (unsigned bits = 1; bits < kLookupBits; ++bits) build_level(bits, &shorter_[1u << bits]);
    build_level(kLookupBits, table);
  }

 private:
  void build_level(unsigned bits, std::uint64_t* level) const {
    for (std::size_t i = 0; i < std::size_t{1} << bits; ++i) {
      const std::uint64_t first = first_[i];
      const std::uint64_t length = entry_bits(first);
      if (length > bits) {
        level[i] = 0;
        continue;
      }
      const std::uint64_t tail = shorter_[(std::size_t{1} << (bits - length)) | i >> length];
      level[i] =
          entry_count(tail) + unit_ <= kMaxEntrySymbols ? append(first, tail) : build_full(bits, i);
    }
  }

  /// An entry with more codes than it has room for: takes as many as fit, one by one.
  std::uint64_t build_full(unsigned bits, std::size_t i) const {
    std::uint64_t entry = 0;
    while (entry_count(entry) + unit_ <= kMaxEntrySymbols) {
      const std::uint64_t next = first_[i >> entry_bits(entry)];
      if (entry_bits(entry) + entry_bits(next) > bits) break;
      entry = append(entry, next);
    }
    return entry;
  }

  unsigned unit_;
  std::array<std::uint64_t, 1u << kLookupBits> first_;
  std::array<std::uint64_t, 1u << kLookupBits> shorter_;
};

// --- rounds ----------------------------------------------------------------------

/// Rounds that a lane can run unchecked: no store leaves its segment, and every load begins at most
/// where its stream ends, so that it reads less than 8 bytes past it.
std::size_t safe_rounds(const Lane& lane) {
  const std::size_t by_room = (lane.left() - kRoundRoom) / kMaxRoundSymbols + 1;
  const std::size_t by_bits = (lane.end_position - lane.position) / kMaxRoundBits + 1;
  return std::min(by_room, by_bits);
}

/// Runs `rounds` rounds (at least 1) of kLanes lanes. The bit set above the window tells by its
/// final place how many bits were used, so the lookups need not add them up.
template <unsigned kLanes>
void run_rounds(const std::uint64_t* table, const std::uint8_t* src, Lane* lanes,
                std::size_t rounds) {
  std::uint64_t position[kLanes];
  std::uint8_t* out[kLanes];
  for (unsigned k = 0; k < kLanes; ++k) {
    position[k] = lanes[k].position;
    out[k] = lanes[k].out;
  }
  do {
    std::uint64_t window[kLanes];
    GRADWIRE_UNROLL
    for (unsigned k = 0; k < kLanes; ++k) {
      window[k] = load<std::uint64_t>(src + (position[k] >> 3)) >> (position[k] & 7) |
                  std::uint64_t{1} << 63;
    }
    GRADWIRE_UNROLL
    for (unsigned j = 0; j < kLookups; ++j) {
      GRADWIRE_UNROLL
      for (unsigned k = 0; k < kLanes; ++k) {
        const std::uint64_t entry = table[window[k] & kLookupMask];
        window[k] >>= entry & 63;
        store(out[k], std::rotr(entry, 8));
        out[k] += entry_count(entry);
      }
    }
    GRADWIRE_UNROLL
    for (unsigned k = 0; k < kLanes; ++k) {
      position[k] += static_cast<std::uint64_t>(std::countl_zero(window[k]));
    }
  } while (--rounds > 0);
  for (unsigned k = 0; k < kLanes; ++k) {
    lanes[k].position = position[k];
    lanes[k].out = out[k];
  }
}

void run_lanes(const std::uint64_t* table, const std::uint8_t* src, Lane* lanes, unsigned live) {
  std::size_t rounds = safe_rounds(lanes[0]);
  for (unsigned k = 1; k < live; ++k) rounds = std::min(rounds, safe_rounds(lanes[k]));
  switch (live) {
    case 1:
      return run_rounds<1>(table, src, lanes, rounds);
    case 2:
      return run_rounds<2>(table, src, lanes, rounds);
    case 3:
      return run_rounds<3>(table, src, lanes, rounds);
    default:
      return run_rounds<kMaxLanes>(table, src, lanes, rounds);
  }
}

std::uint64_t window_at(const std::uint8_t* src, std::uint64_t position) {
  return load<std::uint64_t>(src + (position >> 3)) >> (position & 7);
}

/// A stream must end in its last byte, and the rest of that byte must be zero.
bool at_exact_end(const std::uint8_t* src, const Lane& lane) {
  if (lane.position > lane.end_position || lane.end_position - lane.position > 7) return false;
  return lane.position == lane.end_position || src[lane.position >> 3] >> (lane.position & 7) == 0;
}

}  // namespace

HuffmanDecoder::HuffmanDecoder(const Values& lengths, bool pairs) : pairs_(pairs) {
  assert(is_complete_code(lengths));  // else parts of the table would not be set
  for (std::size_t s = 0; s < kMaxSymbols; ++s) lengths_[s] = static_cast<std::uint8_t>(lengths[s]);
  TableBuilder(lengths, pairs).build(table_.data());
}

/// The last symbols of a lane, which has less than kRoundRoom bytes left.
bool HuffmanDecoder::finish(const std::uint8_t* src, Lane& lane) const {
  while (lane.left() >= sizeof(std::uint64_t)) {
    if (lane.position > lane.end_position) return false;
    const std::uint64_t entry = table_[window_at(src, lane.position) & kLookupMask];
    store(lane.out, std::rotr(entry, 8));
    lane.out += entry_count(entry);
    lane.position += entry_bits(entry);
  }
  return finish_symbols(src, lane) && at_exact_end(src, lane);
}

/// The last 7 symbols at most, code by code. The phantom partner of an odd last symbol must be 0.
bool HuffmanDecoder::finish_symbols(const std::uint8_t* src, Lane& lane) const {
  while (lane.left() > 0) {
    if (lane.position > lane.end_position) return false;
    const std::uint64_t entry = table_[window_at(src, lane.position) & kLookupMask];
    const auto first = static_cast<std::uint8_t>(entry >> 8);
    const auto second = static_cast<std::uint8_t>(pairs_ ? entry >> 16 & 255 : 0);
    *lane.out++ = first;
    if (lane.left() > 0 && pairs_) {
      *lane.out++ = second;
    } else if (second != 0) {
      return false;
    }
    lane.position += lengths_[first | second << 4];
  }
  return true;
}

/// Decodes all streams, up to kMaxLanes at a time; a lane that is done takes the next stream.
bool HuffmanDecoder::run(const std::uint8_t* src, std::span<Lane> streams) const {
  std::array<Lane, kMaxLanes> lanes{};
  unsigned live = 0;
  std::size_t next = 0;
  while (live < kMaxLanes && next < streams.size()) lanes[live++] = streams[next++];
  while (live > 0) {
    for (unsigned k = 0; k < live;) {
      if (lanes[k].position > lanes[k].end_position) return false;
      if (lanes[k].left() >= kRoundRoom) {
        ++k;
        continue;
      }
      if (!finish(src, lanes[k])) return false;
      lanes[k] = next < streams.size() ? streams[next++] : lanes[--live];
    }
    if (live > 0) run_lanes(table_.data(), src, lanes.data(), live);
  }
  return true;
}

bool HuffmanDecoder::decode(const std::uint8_t* src, std::span<const std::uint16_t> sizes,
                            std::size_t n, unsigned streams_log2, std::uint8_t* symbols) const {
  if (streams_log2 > kMaxStreamsLog2) return false;
  if (sizes.size() != std::size_t{1} << streams_log2) return false;
  const std::size_t segment = segment_symbols(n, streams_log2);
  std::array<Lane, kMaxStreams> streams;
  std::size_t used = 0;
  std::uint64_t position = 0;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    const std::size_t begin = std::min(n, k * segment);
    const std::size_t end = std::min(n, begin + segment);
    const std::uint64_t end_position = position + std::uint64_t{sizes[k]} * 8;
    if (begin < end) {
      streams[used++] = {position, end_position, symbols + begin, symbols + end};
    } else if (sizes[k] != 0) {
      return false;
    }
    position = end_position;
  }
  return run(src, std::span(streams).first(used));
}

bool HuffmanDecoder::decode_stream(const std::uint8_t* src, std::size_t bytes, std::size_t n,
                                   std::uint8_t* symbols) const {
  if (n == 0) return bytes == 0;
  std::array<Lane, 1> stream{{{0, std::uint64_t{bytes} * 8, symbols, symbols + n}}};
  return run(src, stream);
}

}  // namespace gradwire::entropy
