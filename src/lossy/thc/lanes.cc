#include "lossy/thc/lanes.h"

#include <algorithm>

#include "base/clones.h"
#include "base/fail.h"
#include "lossy/thc/loops.h"
#include "lossy/thc/table.h"

namespace gradwire::lossy {
namespace {

struct Layout {
  unsigned per_word, bits;
};
constexpr Layout kLayouts[] = {{4, 8}, {3, 10}, {2, 16}, {1, 32}};

constexpr std::uint64_t kMostWord = 0x7fffffff;

/// sum over lanes k of 2^(bits k)
constexpr std::uint64_t ones(const Layout& layout) noexcept {
  std::uint64_t sum = 0;
  for (unsigned k = 0; k < layout.per_word; ++k) sum += std::uint64_t{1} << (layout.bits * k);
  return sum;
}

// A word with all lanes is worth ones * entry at most.
template <unsigned kPerWord, unsigned kBits, typename Integer>
GRADWIRE_CLONES void pack_words(const Integer* integers, std::size_t words, std::uint32_t bias,
                                std::int32_t* out) noexcept {
  for (std::size_t w = 0; w < words; ++w) {
    std::uint32_t word = 0;
    for (unsigned k = 0; k < kPerWord; ++k)
      word += std::uint32_t{integers[kPerWord * w + k]} << (kBits * k);
    out[w] = static_cast<std::int32_t>(word - bias);
  }
}

template <unsigned kPerWord, unsigned kBits>
GRADWIRE_CLONES void unpack_words(const std::int32_t* words, std::size_t n, std::uint32_t bias,
                                  std::uint32_t* sums) noexcept {
  constexpr std::uint32_t kMask = kBits == 32 ? ~0u : (1u << kBits % 32) - 1;
  for (std::size_t w = 0; w < n; ++w) {
    const std::uint32_t word = static_cast<std::uint32_t>(words[w]) + bias;
    for (unsigned k = 0; k + 1 < kPerWord; ++k)
      sums[kPerWord * w + k] = word >> (kBits * k) & kMask;
    sums[kPerWord * w + kPerWord - 1] = word >> (kBits * (kPerWord - 1));  // and all that is above
  }
}

/// Calls `use.template operator()<per_word, bits>()`.
template <typename Use>
void with_layout(const Lanes& lanes, const Use& use) {
  if (lanes.per_word == 4) return use.template operator()<4, 8>();
  if (lanes.per_word == 3) return use.template operator()<3, 10>();
  if (lanes.per_word == 2) return use.template operator()<2, 16>();
  use.template operator()<1, 32>();
}

void check_words(std::size_t words, const Lanes& lanes, std::size_t n) {
  if (words != word_count(lanes, n))
    fail(ErrorKind::invalid_argument, "words: {} given, {} needed for {} entries", words,
         word_count(lanes, n), n);
}

template <typename Integer>
void pack(std::span<const Integer> integers, const Lanes& lanes, std::uint32_t terms,
          std::span<std::int32_t> words) {
  check_words(words.size(), lanes, integers.size());
  const std::uint32_t most = largest_of(integers.data(), integers.size());
  if (most > lanes.top * terms)
    fail(ErrorKind::invalid_argument, "entries: {} given, at most {} allowed", most,
         lanes.top * terms);
  const std::uint32_t bias = static_cast<std::uint32_t>(lanes.bias) * terms;
  const std::size_t whole = integers.size() / lanes.per_word;
  Integer last[4] = {};
  std::copy(integers.begin() + static_cast<std::ptrdiff_t>(whole * lanes.per_word), integers.end(),
            last);
  with_layout(lanes, [&]<unsigned kPerWord, unsigned kBits>() {
    pack_words<kPerWord, kBits>(integers.data(), whole, bias, words.data());
    if (whole < words.size()) pack_words<kPerWord, kBits>(last, 1, bias, &words[whole]);
  });
}

void check_bytes(std::size_t bytes, unsigned bits, std::size_t n) {
  if (bits < 1 || bits > 8)
    fail(ErrorKind::invalid_argument, "bits: {} given, 1 to 8 are allowed", bits);
  if (bytes != index_bytes(n, bits))
    fail(ErrorKind::invalid_argument, "bytes: {} given, {} needed for {} indices of {} bits", bytes,
         index_bytes(n, bits), n, bits);
}

// Eight indices take `bits` bytes; n is a multiple of 8.
template <unsigned kBits>
GRADWIRE_CLONES void pack_octets(const std::uint8_t* indices, std::size_t n,
                                 std::uint8_t* bytes) noexcept {
  for (std::size_t i = 0; i < n; i += 8, bytes += kBits) {
    std::uint64_t group = 0;
    for (unsigned k = 0; k < 8; ++k) group |= std::uint64_t{indices[i + k]} << (kBits * k);
    std::memcpy(bytes, &group, kBits);
  }
}

template <unsigned kBits>
GRADWIRE_CLONES void unpack_octets(const std::uint8_t* bytes, std::size_t n,
                                   std::uint8_t* indices) noexcept {
  constexpr std::uint64_t kMask = (1u << kBits) - 1;
  for (std::size_t i = 0; i < n; i += 8, bytes += kBits) {
    std::uint64_t group = 0;
    std::memcpy(&group, bytes, kBits);
    for (unsigned k = 0; k < 8; ++k)
      indices[i + k] = static_cast<std::uint8_t>(group >> (kBits * k) & kMask);
  }
}

/// Calls `use.template operator()<bits>()`.
template <unsigned kBits = 1, typename Use>
void with_bits(unsigned bits, const Use& use) {
  if (bits == kBits) return use.template operator()<kBits>();
  if constexpr (kBits < 8) with_bits<kBits + 1>(bits, use);
}

}  // namespace

Lanes lanes_for(std::uint32_t top, std::uint32_t ranks) {
  const std::uint64_t sum = std::uint64_t{top} * ranks;
  if (ranks < 1 || sum > kMostSum)
    fail(ErrorKind::limit, "ranks: {} given, 1 to {} are allowed for entries up to {}", ranks,
         kMostSum / std::max(top, 1u), top);
  for (const Layout& layout : kLayouts) {
    const std::uint64_t most_word = top * ones(layout);
    const std::uint64_t bias = most_word / 2;
    if (sum >> layout.bits != 0 || (most_word - bias) * ranks > kMostWord) continue;
    return {layout.per_word,
            layout.bits,
            top,
            ranks,
            static_cast<std::int32_t>(bias),
            static_cast<std::uint32_t>(most_word - bias)};
  }
  fail(ErrorKind::limit, "ranks: {} given, too many for entries up to {}", ranks, top);
}

void pack_entries(std::span<const std::uint8_t> entries, const Lanes& lanes,
                  std::span<std::int32_t> words) {
  pack(entries, lanes, 1, words);
}

void pack_sums(std::span<const std::uint32_t> sums, const Lanes& lanes,
               std::span<std::int32_t> words) {
  pack(sums, lanes, lanes.ranks, words);
}

void unpack_sums(std::span<const std::int32_t> words, const Lanes& lanes,
                 std::span<std::uint32_t> sums) {
  check_words(words.size(), lanes, sums.size());
  const std::uint32_t bias = static_cast<std::uint32_t>(lanes.bias) * lanes.ranks;
  const std::size_t whole = sums.size() / lanes.per_word;
  std::uint32_t last[4] = {};
  with_layout(lanes, [&]<unsigned kPerWord, unsigned kBits>() {
    unpack_words<kPerWord, kBits>(words.data(), whole, bias, sums.data());
    if (whole < words.size()) unpack_words<kPerWord, kBits>(&words[whole], 1, bias, last);
  });
  const std::size_t used = sums.size() - whole * lanes.per_word;
  std::copy_n(last, used, sums.data() + whole * lanes.per_word);
  const std::uint32_t most = largest_of(sums.data(), sums.size());
  if (most > lanes.top * lanes.ranks)
    fail(ErrorKind::corrupt, "sums: {} found, at most {} allowed for {} ranks", most,
         lanes.top * lanes.ranks, lanes.ranks);
  if (largest_of(last + used, std::size(last) - used) != 0)
    fail(ErrorKind::corrupt, "words: a lane behind the last of {} sums is not zero", sums.size());
}

void pack_indices(std::span<const std::uint8_t> indices, unsigned bits,
                  std::span<std::uint8_t> bytes) {
  check_bytes(bytes.size(), bits, indices.size());
  const std::uint32_t most = largest_of(indices.data(), indices.size());
  if (most >> bits != 0)
    fail(ErrorKind::invalid_argument, "indices: {} given, below {} allowed", most, 1u << bits);
  const std::size_t whole = indices.size() - indices.size() % 8;
  std::uint8_t last[8] = {};
  std::uint8_t packed[8] = {};
  std::copy(indices.begin() + static_cast<std::ptrdiff_t>(whole), indices.end(), last);
  with_bits(bits, [&]<unsigned kBits>() {
    pack_octets<kBits>(indices.data(), whole, bytes.data());
    pack_octets<kBits>(last, 8, packed);
  });
  const std::size_t done = whole / 8 * bits;
  std::copy_n(packed, bytes.size() - done, bytes.data() + done);
}

void unpack_indices(ByteSpan bytes, unsigned bits, std::span<std::uint8_t> indices) {
  check_bytes(bytes.size(), bits, indices.size());
  const std::size_t whole = indices.size() - indices.size() % 8;
  const std::size_t done = whole / 8 * bits;
  std::uint8_t packed[8] = {};
  std::uint8_t last[8] = {};
  std::copy(bytes.begin() + static_cast<std::ptrdiff_t>(done), bytes.end(), packed);
  with_bits(bits, [&]<unsigned kBits>() {
    unpack_octets<kBits>(bytes.data(), whole, indices.data());
    unpack_octets<kBits>(packed, 8, last);
  });
  const std::size_t used = indices.size() - whole;
  std::copy_n(last, used, indices.data() + whole);
  const std::size_t used_bits = used * bits;  // the last byte is behind whole indices, or split
  if (used_bits % 8 != 0 && packed[used_bits / 8] >> used_bits % 8 != 0)
    fail(ErrorKind::corrupt, "bytes: a bit behind the last of {} indices is set", indices.size());
}

}  // namespace gradwire::lossy
