// Chunks of the kernels pipeline, decoded.

#include <cstring>

#include "lossless/chunk_parts.h"
#include "lossless/sequence_cursor.h"
#include "lossless/tensor_decoder.h"
#include "stages/entropy/integer_array.h"
#include "stages/split/records.h"

namespace gradwire::lossless {
namespace {

/// Coded elements of tap 0: all, or those that the mask leaves.
std::size_t first_tap_count(const KernelParameters& p, std::size_t n, const std::uint8_t* mask) {
  if (mask == nullptr) return n / static_cast<std::size_t>(p.taps);
  std::size_t count = 0;
  const auto inner = static_cast<std::size_t>(p.inner);
  for (std::size_t group = 0; group < n; group += inner * static_cast<std::size_t>(p.taps)) {
    for (std::size_t i = group; i < group + inner; ++i) count += mask[i];
  }
  return count;
}

}  // namespace

template <typename Word>
void TensorDecoder::decode_kernels(std::uint64_t c, std::span<std::uint8_t> out,
                                   Scratch& scratch) const {
  const frame::TensorHeader& header = body_->header;
  const frame::ChunkEntry& entry = body_->index[c];
  const KernelParameters& p = header.kernels;
  const std::uint32_t n = header.chunk_size(c);
  ByteReader in(body_->chunk(c), body_->chunk_offset(c));
  const std::size_t coded = coded_mask(c, in, scratch);
  const std::uint8_t* mask = coded == n ? nullptr : scratch.mask.data();
  scratch.scales.resize(n / static_cast<std::size_t>(p.taps));
  entropy::read_integers(in, scratch.scales, -predict::kMaxKernelScale, predict::kMaxKernelScale,
                         "kernel scales");
  scratch.side_bytes = in.offset() - body_->chunk_offset(c);

  const std::size_t streams = streams_of(entry.second) + streams_of(entry.table) +
                              (p.counted ? streams_of(entry.second + 1u) : 0);
  const ChunkParts parts = split_chunk(in, streams, sizeof(Word), scratch, c);
  SequenceCursor cursor{parts.streams.data(), scratch.sizes};
  std::uint8_t* symbols = Scratch::sized(scratch.compact, n);
  const std::size_t first = first_tap_count(p, n, mask);
  decode_sequence(second_, entry.second, first, cursor, symbols, c);
  decode_sequence(first_, entry.table, coded - first, cursor, symbols + first, c);

  const unsigned low_bits = p.kept - predict::kernel_fraction(header.dtype);
  predict::KernelInput<Word> input{symbols, nullptr, nullptr, parts.escapes.data(),
                                   parts.escape_count};
  std::size_t low_bytes = 0;
  if (p.counted) {
    std::uint8_t* second = Scratch::sized(scratch.second, n);
    decode_sequence(third_, entry.second + 1u, coded, cursor, second, c);
    input.second = second;
  } else if (low_bits > 0) {
    low_bytes = split::record_bytes(coded, low_bits);
    if (low_bytes > parts.raw.size()) refuse(c, "has fewer raw bytes than its low bits need");
    Word* low = Scratch::sized<Word>(scratch.packed, n);
    const std::uint8_t* source = parts.raw.data() + (parts.raw.size() - low_bytes);
    split::unpack_records(source, coded, low_bits, low);
    const unsigned odd = coded * (low_bits % 8) % 8;
    if (odd != 0 && parts.raw.back() >> odd != 0) refuse(c, "has padding bits that are not zero");
    input.low = low;
  }
  SlackBitReader raw(parts.raw.first(parts.raw.size() - low_bytes));
  Word* words = Scratch::sized<Word>(scratch.words, n);
  const predict::KernelRun run{header.dtype, &p, &taps_, scratch.scales.data(), mask, n};
  if (!predict::restore_kernels(run, input, std::get<predict::KernelScratch<Word>>(scratch.kernels),
                                raw, words) ||
      !raw.at_exact_end()) {
    refuse(c, "has symbols, raw bits and escapes that contradict each other");
  }
  std::memcpy(out.data(), words, out.size());
}

template void TensorDecoder::decode_kernels<std::uint16_t>(std::uint64_t, std::span<std::uint8_t>,
                                                           Scratch&) const;
template void TensorDecoder::decode_kernels<std::uint32_t>(std::uint64_t, std::span<std::uint8_t>,
                                                           Scratch&) const;

}  // namespace gradwire::lossless
