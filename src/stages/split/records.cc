#include "stages/split/records.h"

namespace gradwire::split {
namespace {

template <typename Word>
void pack_remainder(const Word* records, std::size_t n, unsigned shift, unsigned bits, std::uint8_t* dst) noexcept {
  const std::uint64_t mask = (1u << bits) - 1;
  std::size_t i = 0;
  // Eight fields of b bits fill b whole bytes.
  for (; i + 8 <= n; i += 8, dst += bits) {
    std::uint64_t group = 0;
    for (unsigned k = 0; k < 8; ++k) {
      group |= (static_cast<std::uint64_t>(records[i + k] >> shift) & mask) << (bits * k);
    }
    store(dst, group);
  }
  BitWriter tail(dst);
  for (; i < n; ++i) tail.put(static_cast<std::uint64_t>(records[i] >> shift) & mask, bits);
  tail.finish();
}

template <typename Word>
void unpack_remainder(const std::uint8_t* src, std::size_t n, unsigned shift, unsigned bits, Word* records) noexcept {
  const std::uint64_t mask = (1u << bits) - 1;
  for (std::size_t i = 0; i < n; i += 8, src += bits) {
    const std::uint64_t group = load<std::uint64_t>(src);
    const std::size_t count = n - i < 8 ? n - i : 8;
    if (count == 8) {
      for (unsigned k = 0; k < 8; ++k) {
        records[i + k] = static_cast<Word>(records[i + k] | static_cast<Word>((group >> (bits * k)) & mask) << shift);
      }
    } else {
      for (unsigned k = 0; k < count; ++k) {
        records[i + k] = static_cast<Word>(records[i + k] | static_cast<Word>((group >> (bits * k)) & mask) << shift);
      }
    }
  }
}

}  // namespace

template <typename Word>
void pack_records(const Word* records, std::size_t n, unsigned q, std::uint8_t* dst) noexcept {
  unsigned shift = 0;
  for (; shift + 8 <= q; shift += 8, dst += n) {
    for (std::size_t i = 0; i < n; ++i) dst[i] = static_cast<std::uint8_t>(records[i] >> shift);
  }
  if (q % 8 != 0) pack_remainder(records, n, shift, q % 8, dst);
}

template <typename Word>
void unpack_records(const std::uint8_t* src, std::size_t n, unsigned q, Word* records) noexcept {
  if (q < 8) {
    for (std::size_t i = 0; i < n; ++i) records[i] = 0;
  }
  unsigned shift = 0;
  for (; shift + 8 <= q; shift += 8, src += n) {
    if (shift == 0) {
      for (std::size_t i = 0; i < n; ++i) records[i] = src[i];
    } else {
      for (std::size_t i = 0; i < n; ++i) records[i] = static_cast<Word>(records[i] | static_cast<Word>(src[i]) << shift);
    }
  }
  if (q % 8 != 0) unpack_remainder(src, n, shift, q % 8, records);
}

template <typename Word>
void pack_counted(const Word* records, std::size_t n, CountShape shape, bool has_sign, std::uint8_t* counts,
                  BitWriter& out) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    if (has_sign) out.put(records[i] & 1, 1);
    const std::uint64_t g = has_sign ? std::uint64_t{records[i]} >> 1 : std::uint64_t{records[i]};
    counts[i] = static_cast<std::uint8_t>(put_counted(g, shape, out));
  }
}

template <typename Word>
bool unpack_counted(SlackBitReader& in, const std::uint8_t* counts, std::size_t n, CountShape shape, bool has_sign,
                    Word* records) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t sign = has_sign ? in.get(1) : 0;
    std::uint64_t g = 0;
    if (!get_counted(counts[i], shape, in, g)) return false;
    records[i] = static_cast<Word>(has_sign ? g << 1 | sign : g);
  }
  return true;
}

#define GRADWIRE_RECORDS(Word)                                                                                         \
  template void pack_records<Word>(const Word*, std::size_t, unsigned, std::uint8_t*) noexcept;                        \
  template void unpack_records<Word>(const std::uint8_t*, std::size_t, unsigned, Word*) noexcept;                      \
  template void pack_counted<Word>(const Word*, std::size_t, CountShape, bool, std::uint8_t*, BitWriter&) noexcept;    \
  template bool unpack_counted<Word>(SlackBitReader&, const std::uint8_t*, std::size_t, CountShape, bool, Word*) noexcept;

GRADWIRE_RECORDS(std::uint16_t)
GRADWIRE_RECORDS(std::uint32_t)
GRADWIRE_RECORDS(std::uint64_t)
#undef GRADWIRE_RECORDS

}  // namespace gradwire::split
