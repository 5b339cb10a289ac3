// Chunks of the scaled and planes pipelines, decoded.

#include <algorithm>
#include <cstring>

#include "base/bits.h"
#include "base/count_bytes.h"
#include "base/fail.h"
#include "lossless/chunk_parts.h"
#include "lossless/sequence_cursor.h"
#include "lossless/side_info.h"
#include "lossless/tensor_decoder.h"
#include "stages/entropy/integer_array.h"
#include "stages/split/records.h"

namespace gradwire::lossless {
namespace {

/// True when the unused bits behind the bitstream of n q-bit records are zero.
bool padding_is_zero(ByteSpan raw, std::size_t n, unsigned q) noexcept {
  const std::size_t bits = n * (q % 8);
  return bits % 8 == 0 || raw.back() >> (bits % 8) == 0;
}

/// Parts a joint sequence into symbols and the counts of what is no zero; false for symbols that
/// the alphabet does not have and for zeros with a count.
bool part(const std::uint8_t* both, std::size_t n, const ScaledParameters& p, std::uint8_t* symbols,
          std::uint8_t* counts) noexcept {
  const unsigned zero = p.zero_symbol();
  std::size_t k = 0;
  bool sound = true;
  for (std::size_t i = 0; i < n; ++i) {
    symbols[i] = both[2 * i];
    counts[k] = both[2 * i + 1];
    const bool is_zero = symbols[i] == zero;
    sound &= symbols[i] < p.alphabet() && (!is_zero || counts[k] == 0);
    k += !is_zero;
  }
  return sound;
}

/// Spreads compact symbols and records over all positions: masked ones get the zero symbol.
template <typename Word>
void expand(const std::uint8_t* mask, std::size_t n, unsigned zero, const std::uint8_t* compact,
            const Word* packed, std::uint8_t* symbols, Word* records) noexcept {
  std::size_t s = 0;
  std::size_t r = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const bool coded = mask == nullptr || mask[i] != 0;
    const auto symbol = coded ? compact[s] : static_cast<std::uint8_t>(zero);
    s += coded;
    symbols[i] = symbol;
    records[i] = packed[r];
    r += symbol != zero;
  }
}

}  // namespace

std::size_t TensorDecoder::coded_mask(std::uint64_t c, ByteReader& in, Scratch& scratch) const {
  const std::uint32_t n = body_->header.chunk_size(c);
  const std::uint64_t first = c * body_->header.chunk_elements;
  std::uint8_t* mask = Scratch::sized(scratch.mask, n);
  const std::size_t live = live_mask(grid_, body_->header.scaled, first, n, mask);
  if (body_->index[c].kind != frame::ChunkKind::mapped) return live;
  std::uint8_t* flags = Scratch::sized(scratch.compact, n);
  entropy::read_flags(in, {flags, live}, "flag map");
  if (!has_dead(grid_)) std::fill_n(mask, n, std::uint8_t{1});
  std::size_t coded = 0;
  for (std::size_t i = 0, k = 0; i < n; ++i) {
    if (mask[i] == 0) continue;
    mask[i] = flags[k++] == 0;
    coded += mask[i];
  }
  return coded;
}

template <typename Word>
void TensorDecoder::decode_scaled(std::uint64_t c, std::span<std::uint8_t> out,
                                  Scratch& scratch) const {
  const frame::TensorHeader& header = body_->header;
  const frame::ChunkEntry& entry = body_->index[c];
  const ScaledParameters& p = header.scaled;
  const FloatFormat format = float_format(header.dtype);
  const std::uint32_t n = header.chunk_size(c);
  ByteReader in(body_->chunk(c), body_->chunk_offset(c));
  const std::size_t coded = coded_mask(c, in, scratch);
  scratch.side_bytes = in.offset() - body_->chunk_offset(c);

  const std::size_t primary_streams = streams_of(entry.table);
  const std::size_t streams =
      primary_streams + (p.counted && !p.joint ? streams_of(entry.second) : 0);
  const ChunkParts parts = split_chunk(in, streams, predict::escape_bytes(format, p), scratch, c);
  SequenceCursor cursor{parts.streams.data(), scratch.sizes};
  std::uint8_t* compact = Scratch::sized(scratch.compact, n);
  if (p.joint) {
    std::uint8_t* both = Scratch::sized(scratch.symbols, 2 * n);
    decode_sequence(first_, entry.table, 2 * coded, cursor, both, c);
    if (!part(both, coded, p, compact, Scratch::sized(scratch.second, n)))
      refuse(c, "has symbols beyond its alphabet, or counts of zeros");
  } else {
    decode_sequence(first_, entry.table, coded, cursor, compact, c);
  }

  const auto zeros = count_byte(compact, coded, static_cast<std::uint8_t>(p.zero_symbol()));
  const auto escapes = count_byte(compact, coded, static_cast<std::uint8_t>(p.escape_symbol()));
  if (zeros > 0 && !p.has_zero) refuse(c, "has zero symbols without has_zero");
  if (escapes != parts.escape_count)
    refuse(c, "has another number of escape symbols than its head says");

  const std::size_t count = coded - zeros;
  Word* packed = Scratch::sized<Word>(scratch.packed, n + 8);
  const unsigned q = p.record_bits();
  if (p.counted) {
    std::uint8_t* second = Scratch::sized(scratch.second, n);
    if (!p.joint) decode_sequence(second_, entry.second, count, cursor, second, c);
    SlackBitReader bits(parts.raw);
    if (!split::unpack_counted(bits, second, count, {p.rest_bits(), p.low_count},
                               p.sign_mode == SignMode::raw, packed) ||
        !bits.at_exact_end()) {
      refuse(c, "has raw bits that do not match its counts");
    }
  } else {
    if (parts.raw.size() != split::record_bytes(count, q))
      refuse(c, "has another number of raw bytes than its records need");
    if (!padding_is_zero(parts.raw, count, q)) refuse(c, "has padding bits that are not zero");
    split::unpack_records(parts.raw.data(), count, q, packed);
  }

  const std::uint8_t* symbols = compact;
  const Word* records = packed;
  if (coded != n || zeros > 0) {
    packed[count] = 0;  // read, not used, behind the last record
    std::uint8_t* all = Scratch::sized(scratch.symbols, n);
    Word* spread = Scratch::sized<Word>(scratch.records, n);
    expand(coded == n ? nullptr : scratch.mask.data(), n, p.zero_symbol(), compact, packed, all,
           spread);
    symbols = all;
    records = spread;
  }
  const bool aligned = reinterpret_cast<std::uintptr_t>(out.data()) % alignof(Word) == 0;
  Word* words =
      aligned ? reinterpret_cast<Word*>(out.data()) : Scratch::sized<Word>(scratch.words, n);
  const predict::ScaledRun run{
      format, &p, &grid_, tables_[entry.table].base, c * header.chunk_elements, n};
  if (!predict::restore_scaled(run, symbols, records, parts.escapes.data(), words)) {
    refuse(c, "has an escape record with bits beyond its fields");
  }
  if (!aligned) std::memcpy(out.data(), words, out.size());
}

void TensorDecoder::decode_planes(std::uint64_t c, std::span<std::uint8_t> out,
                                  Scratch& scratch) const {
  const frame::TensorHeader& header = body_->header;
  const std::size_t width = header.element_bytes();
  const std::uint32_t n = header.chunk_size(c);
  std::size_t streams = 0;
  std::size_t raw_planes = 0;
  for (std::size_t b = 0; b < width; ++b) {
    raw_planes += header.planes[b].mode == frame::PlaneMode::raw;
    if (header.planes[b].mode == frame::PlaneMode::coded)
      streams += streams_of(header.planes[b].value);
  }
  ByteReader in(body_->chunk(c), body_->chunk_offset(c));
  const ChunkParts parts = split_chunk(in, streams, 0, scratch, c);
  if (parts.escape_count != 0) refuse(c, "has escapes in pipeline planes");
  if (parts.raw.size() != raw_planes * n)
    refuse(c, "has another number of raw bytes than its planes need");
  SequenceCursor cursor{parts.streams.data(), scratch.sizes};
  std::uint8_t* symbols = Scratch::sized(scratch.compact, n);
  const std::uint8_t* raw = parts.raw.data();
  for (std::size_t b = 0; b < width; ++b) {
    const frame::PlaneParameters& plane = header.planes[b];
    const std::uint8_t* source = symbols;
    if (plane.mode == frame::PlaneMode::coded) {
      decode_sequence(first_, plane.value, n, cursor, symbols, c);
    } else if (plane.mode == frame::PlaneMode::constant) {
      std::fill_n(symbols, n, plane.value);
    } else {
      source = raw;
      raw += n;
    }
    for (std::size_t i = 0; i < n; ++i) out[i * width + b] = source[i];
  }
}

template void TensorDecoder::decode_scaled<std::uint16_t>(std::uint64_t, std::span<std::uint8_t>,
                                                          Scratch&) const;
template void TensorDecoder::decode_scaled<std::uint32_t>(std::uint64_t, std::span<std::uint8_t>,
                                                          Scratch&) const;
template void TensorDecoder::decode_scaled<std::uint64_t>(std::uint64_t, std::span<std::uint8_t>,
                                                          Scratch&) const;

}  // namespace gradwire::lossless
