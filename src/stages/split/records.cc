#include "stages/split/records.h"

#include <algorithm>

#include "base/clones.h"

namespace gradwire::split {
namespace {

/// Eight fields of b bits, one a byte, to 8 b bits without gaps, and back: in three steps
/// neighbours are moved together (apart), first bytes, then pairs, then fours.
class EightFields {
 public:
  explicit EightFields(unsigned bits) noexcept : gap_(8 - bits), field_((1u << bits) - 1), mask_{} {
    for (unsigned step = 0; step < 3; ++step) {
      const unsigned width = bits << step;  // of the fields that this step moves
      const unsigned stride = 16u << step;  // from one pair of them to the next
      for (unsigned at = 0; at < 64; at += stride)
        mask_[step] |= ((std::uint64_t{1} << width) - 1) << at;
    }
  }
  std::uint64_t pack(std::uint64_t bytes) const noexcept {
    for (unsigned step = 0; step < 3; ++step) {
      const std::uint64_t odd = bytes & mask_[step] << (8u << step);
      bytes = (bytes & mask_[step]) | odd >> (gap_ << step);
    }
    return bytes;
  }
  std::uint64_t unpack(std::uint64_t dense) const noexcept {
    for (unsigned step = 3; step-- > 0;) {
      const unsigned shift = gap_ << step;
      const std::uint64_t odd = dense << shift & mask_[step] << (8u << step);
      dense = (dense & mask_[step]) | odd;
    }
    return dense;
  }
  std::uint8_t field() const noexcept { return static_cast<std::uint8_t>(field_); }

 private:
  unsigned gap_;
  unsigned field_;
  std::uint64_t mask_[3];
};

constexpr std::size_t kRun = 512;  ///< fields that pass through a byte buffer at a time

template <typename Word>
GRADWIRE_CLONES void pack_remainder(const Word* records, std::size_t n, unsigned shift,
                                    unsigned bits, std::uint8_t* dst) noexcept {
  const EightFields fields(bits);
  std::uint8_t bytes[kRun];
  for (std::size_t first = 0; first < n; first += kRun) {
    const std::size_t count = n - first < kRun ? n - first : kRun;
    for (std::size_t i = 0; i < count; ++i) {
      bytes[i] = static_cast<std::uint8_t>(static_cast<std::uint8_t>(records[first + i] >> shift) &
                                           fields.field());
    }
    for (std::size_t i = count; i % 8 != 0; ++i) bytes[i] = 0;
    // A last group of fewer fields leaves zero bits behind it; the room allows for whole groups.
    for (std::size_t i = 0; i < count; i += 8, dst += bits)
      store(dst, fields.pack(load<std::uint64_t>(bytes + i)));
  }
}

template <typename Word>
GRADWIRE_CLONES void unpack_remainder(const std::uint8_t* src, std::size_t n, unsigned shift,
                                      unsigned bits, Word* records) noexcept {
  const EightFields fields(bits);
  std::uint8_t bytes[kRun];
  for (std::size_t first = 0; first < n; first += kRun) {
    const std::size_t count = n - first < kRun ? n - first : kRun;
    for (std::size_t i = 0; i < count; i += 8, src += bits)
      store(bytes + i, fields.unpack(load<std::uint64_t>(src)));
    Word* const out = records + first;
    if (shift == 0) {
      for (std::size_t i = 0; i < count; ++i) out[i] = bytes[i];
    } else {
      for (std::size_t i = 0; i < count; ++i)
        out[i] =
            static_cast<Word>(out[i] | static_cast<Word>(static_cast<Word>(bytes[i]) << shift));
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
  if (q == 0) std::fill_n(records, n, Word{0});
  unsigned shift = 0;
  for (; shift + 8 <= q; shift += 8, src += n) {
    if (shift == 0) {
      for (std::size_t i = 0; i < n; ++i) records[i] = src[i];
    } else {
      for (std::size_t i = 0; i < n; ++i)
        records[i] = static_cast<Word>(records[i] | static_cast<Word>(src[i]) << shift);
    }
  }
  if (q % 8 != 0) unpack_remainder(src, n, shift, q % 8, records);
}

template <typename Word>
void pack_counted(const Word* records, std::size_t n, CountShape shape, bool has_sign,
                  std::uint8_t* counts, BitWriter& out) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    if (has_sign) out.put(records[i] & 1, 1);
    const std::uint64_t g = has_sign ? std::uint64_t{records[i]} >> 1 : std::uint64_t{records[i]};
    counts[i] = static_cast<std::uint8_t>(put_counted(g, shape, out));
  }
}

template <typename Word>
bool unpack_counted(SlackBitReader& in, const std::uint8_t* counts, std::size_t n, CountShape shape,
                    bool has_sign, Word* records) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t sign = has_sign ? in.get(1) : 0;
    std::uint64_t g = 0;
    if (!get_counted(counts[i], shape, in, g)) return false;
    records[i] = static_cast<Word>(has_sign ? g << 1 | sign : g);
  }
  return true;
}

#define GRADWIRE_RECORDS(Word)                                                                    \
  template void pack_records<Word>(const Word*, std::size_t, unsigned, std::uint8_t*) noexcept;   \
  template void unpack_records<Word>(const std::uint8_t*, std::size_t, unsigned, Word*) noexcept; \
  template void pack_counted<Word>(const Word*, std::size_t, CountShape, bool, std::uint8_t*,     \
                                   BitWriter&) noexcept;                                          \
  template bool unpack_counted<Word>(SlackBitReader&, const std::uint8_t*, std::size_t,           \
                                     CountShape, bool, Word*) noexcept;

GRADWIRE_RECORDS(std::uint16_t)
GRADWIRE_RECORDS(std::uint32_t)
GRADWIRE_RECORDS(std::uint64_t)
#undef GRADWIRE_RECORDS

}  // namespace gradwire::split
