// Table entries packed for the wire: several in each word of an all-reduce of 32-bit integers, or
// indices in as many bits as they have.
// In: entries 0 .. top, or their sums; indices.
// Out: words whose sums over ranks are the packed sums; bytes; and back.
// Assumes: entries and indices below their bounds; nothing of what came over the wire.
//
// A word is sum over lanes k of 2^(bits k) v_k - bias. Sums of W ranks stay below 2^bits in each
// lane, so nothing carries. The bias is half of the largest word, so that words are about as far
// below zero as above it and W * most, the largest magnitude of a sum, is below 2^31. Four lanes
// of 8 bits need top * W <= 254: with 255 there are 2^32 possible sums, one too many for the
// integers from -(2^31 - 1) to 2^31 - 1 that the all-reduce allows (for whatever bias, as each
// rank's share of them is the same).
#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.h"

namespace gradwire::lossy {

struct Lanes {
  unsigned per_word;  ///< 4, 3, 2 or 1
  unsigned bits;      ///< of a lane: 8, 10, 16 or 32
  std::uint32_t top;  ///< the largest entry
  std::uint32_t ranks;
  std::int32_t bias;
  std::uint32_t most;  ///< the largest magnitude of a rank's word, for AdditiveBucket::most
};

/// As many lanes as the sum of `ranks` ranks, 1 or more, leaves room for: 4 for top * ranks <= 254,
/// 3 for 1023, 2 for 65534. Throws limit for a top * ranks above 2^30 - 1.
Lanes lanes_for(std::uint32_t top, std::uint32_t ranks);

/// Words that n entries take.
constexpr std::size_t word_count(const Lanes& lanes, std::size_t n) noexcept {
  return n / lanes.per_word + (n % lanes.per_word != 0);
}

/// A rank's words: entries k, k + 1, ... of a word in ascending lanes, zeros behind the last.
/// Throws invalid_argument if `words` has not word_count places or an entry is above `top`.
void pack_entries(std::span<const std::uint8_t> entries, const Lanes& lanes,
                  std::span<std::int32_t> words);

/// What the all-reduce would give, from sums of all ranks: a server's answer. Throws
/// invalid_argument as above, for a sum above top * ranks.
void pack_sums(std::span<const std::uint32_t> sums, const Lanes& lanes,
               std::span<std::int32_t> words);

/// The sums in words that are a sum over lanes.ranks ranks. Throws invalid_argument if `words` has
/// not word_count places, corrupt if a sum is above top * ranks or one behind the last is not 0.
void unpack_sums(std::span<const std::int32_t> words, const Lanes& lanes,
                 std::span<std::uint32_t> sums);

/// Bytes of n indices of `bits` bits, 1 to 8.
constexpr std::size_t index_bytes(std::size_t n, unsigned bits) noexcept {
  return n / 8 * bits + (n % 8 * bits + 7) / 8;
}

/// Index i in bits `bits` i and on of a stream of bits, the least of a byte first, zeros behind
/// the last. Throws invalid_argument if sizes do not fit or an index is 2^bits or more.
void pack_indices(std::span<const std::uint8_t> indices, unsigned bits,
                  std::span<std::uint8_t> bytes);

/// Throws invalid_argument if sizes do not fit, corrupt if a bit behind the last index is set.
void unpack_indices(ByteSpan bytes, unsigned bits, std::span<std::uint8_t> indices);

}  // namespace gradwire::lossy
