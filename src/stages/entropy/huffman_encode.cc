#include <algorithm>
#include <cassert>
#include <utility>

#include "base/unroll.h"
#include "stages/entropy/huffman.h"

namespace gradwire::entropy {
namespace {

/// Bits of one stream on their way out. New codes enter at the top of `pending`, so that an entry
/// needs no shift of its own. Only the low byte of `count` means anything. The lengths that entries
/// carry in their lowest byte stay below the `count` highest bits while these are at most 56.
struct BitLane {
  std::uint64_t pending = 0;
  std::uint64_t count = 0;
  std::uint8_t* out;

  explicit BitLane(std::uint8_t* dst) : out(dst) {}
  void push(std::uint64_t entry) {
    pending = pending >> (entry & 63) | entry;
    count += entry;
  }
  void store() {
    const std::uint64_t bits = count & 255;
    gradwire::store(out, (pending >> 1) >> (63 - bits));
    out += bits >> 3;
    count = bits & 7;
  }
  std::uint8_t* finish() {
    store();
    return out + (count != 0);
  }
};

std::uint64_t make_entry(std::uint64_t code, unsigned length) {
  return length == 0 ? 0 : code << (64 - length) | length;
}

constexpr unsigned kSymbolsPerLoad = 8;
/// 44 bits of new codes and 7 left over stay below 56.
constexpr unsigned kMaxBitsPerStore = 44;

/// Encodes whole groups of 8 symbols of kStreams streams of equal length; returns the symbols done.
/// kStep = 1: an entry a symbol; 2: an entry for two symbols.
template <unsigned kStreams, unsigned kStep, unsigned kEntriesPerStore>
std::size_t encode_groups(const std::array<std::uint64_t, kMaxSymbols>& entries,
                          const std::array<const std::uint8_t*, kStreams>& symbols, std::size_t n,
                          BitLane* lanes) {
  std::size_t i = 0;
  for (; i + kSymbolsPerLoad <= n; i += kSymbolsPerLoad) {
    std::uint64_t group[kStreams];
    GRADWIRE_UNROLL
    for (unsigned k = 0; k < kStreams; ++k) {
      group[k] = load<std::uint64_t>(symbols[k] + i);
      if (kStep == 2) group[k] |= group[k] >> 4;  // s0 | s1 << 4 in every other byte
    }
    GRADWIRE_UNROLL
    for (unsigned j = 0; j < kSymbolsPerLoad / kStep; ++j) {
      GRADWIRE_UNROLL
      for (unsigned k = 0; k < kStreams; ++k) {
        lanes[k].push(entries[group[k] >> (8 * kStep * j) & 255]);
        if ((j + 1) % kEntriesPerStore == 0) lanes[k].store();
      }
    }
  }
  return i;
}

}  // namespace

HuffmanEncoder::HuffmanEncoder(const Values& lengths, bool pairs) : pairs_(pairs) {
  assert(is_complete_code(lengths));
  const auto codes = canonical_codes(lengths);
  for (std::size_t s = 0; s < kMaxSymbols; ++s) units_[s] = make_entry(codes[s], lengths[s]);
  if (pairs) {
    joined_ = units_;
    step_ = Step::two_symbols_short;
  } else if (std::all_of(lengths.begin() + 16, lengths.end(), [](auto v) { return v == 0; })) {
    join_entries();
  }
}

void HuffmanEncoder::join_entries() {
  std::uint64_t longest = 0;
  for (std::size_t s = 0; s < 16; ++s) longest = std::max(longest, units_[s] & 255);
  for (std::size_t pair = 0; pair < kMaxSymbols; ++pair) {
    const std::uint64_t first = units_[pair & 15];
    const std::uint64_t second = units_[pair >> 4];
    const std::uint64_t first_code = first & ~std::uint64_t{255};
    joined_[pair] = ((first_code >> (second & 63)) | second) + (first & 255);
  }
  step_ = 4 * 2 * longest <= kMaxBitsPerStore ? Step::two_symbols_short : Step::two_symbols_long;
}

template <unsigned kStreams>
void HuffmanEncoder::encode_streams(std::array<const std::uint8_t*, kStreams> symbols,
                                    std::size_t n, std::array<std::uint8_t*, kStreams>& dst) const {
  std::array<BitLane, kStreams> lanes = [&]<std::size_t... k>(std::index_sequence<k...>) {
    return std::array<BitLane, kStreams>{BitLane(dst[k])...};
  }(std::make_index_sequence<kStreams>());
  std::size_t done = 0;
  switch (step_) {
    case Step::symbol:
      done = encode_groups<kStreams, 1, 4>(units_, symbols, n, lanes.data());
      break;
    case Step::two_symbols_long:
      done = encode_groups<kStreams, 2, 2>(joined_, symbols, n, lanes.data());
      break;
    case Step::two_symbols_short:
      done = encode_groups<kStreams, 2, 4>(joined_, symbols, n, lanes.data());
      break;
  }
  for (unsigned k = 0; k < kStreams; ++k) {
    for (std::size_t i = done; i < n; i += pairs_ ? 2 : 1) {
      const unsigned partner = pairs_ && i + 1 < n ? symbols[k][i + 1] : 0;
      lanes[k].push(units_[symbols[k][i] | partner << 4]);
      lanes[k].store();
    }
    dst[k] = lanes[k].finish();
  }
}

std::size_t HuffmanEncoder::encode_stream(const std::uint8_t* symbols, std::size_t n,
                                          std::uint8_t* dst) const {
  std::array<std::uint8_t*, 1> end{dst};
  encode_streams<1>({symbols}, n, end);
  return static_cast<std::size_t>(end[0] - dst);
}

std::size_t HuffmanEncoder::encode(const std::uint8_t* symbols, std::size_t n,
                                   unsigned streams_log2, std::uint8_t* dst,
                                   std::uint16_t* sizes) const {
  const std::size_t segment = segment_symbols(n, streams_log2);
  const unsigned streams = 1u << streams_log2;
  std::uint8_t* out = dst;
  bool fits = true;
  const auto close = [&](unsigned stream, std::size_t bytes) {
    fits = fits && bytes <= UINT16_MAX;
    sizes[stream] = static_cast<std::uint16_t>(bytes);
    out += bytes;
  };
  for (unsigned k = 0; k < streams && fits;) {
    const std::size_t begin = std::min(n, k * segment);
    const std::size_t count = std::min(segment, n - begin);
    if (k + 1 == streams || begin + 2 * segment > n) {
      close(k++, count == 0 ? 0 : encode_stream(symbols + begin, count, out));
      continue;
    }
    // Two whole streams at once hide the latency of each other's shifts. Where the second will lie
    // is only known afterwards: it is written past the first one's bound and moved.
    std::uint8_t* const side = out + stream_room(segment);
    std::array<std::uint8_t*, 2> ends{out, side};
    encode_streams<2>({symbols + begin, symbols + begin + segment}, segment, ends);
    close(k++, static_cast<std::size_t>(ends[0] - out));
    const auto second_bytes = static_cast<std::size_t>(ends[1] - side);
    std::memmove(out, side, second_bytes);
    close(k++, second_bytes);
  }
  return fits ? static_cast<std::size_t>(out - dst) : SIZE_MAX;
}

}  // namespace gradwire::entropy
