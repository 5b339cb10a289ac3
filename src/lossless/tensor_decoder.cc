#include "lossless/tensor_decoder.h"

#include <algorithm>
#include <cstring>

#include "base/counted.h"
#include "base/fail.h"
#include "lossless/sequence_cursor.h"
#include "lossless/side_info.h"
#include "stages/split/words.h"

namespace gradwire::lossless {

TensorDecoder::TensorDecoder(const frame::TensorBody& body, bool verify)
    : body_(&body),
      verify_(verify && body.checksums),
      tables_(read_tables(body[frame::Section::tables])),
      grid_(read_grid(body)) {
  const bool kernels = body.header.elements > 0 && body.header.pipeline == frame::Pipeline::kernels;
  if (body[frame::Section::taps].present != kernels) {
    fail(ErrorKind::corrupt, "section taps: {} by the pipeline of this tensor",
         kernels ? "required" : "must be absent");
  }
  if (kernels) {
    ByteReader in = body[frame::Section::taps].reader();
    taps_ = predict::read_taps(in, static_cast<unsigned>(body.header.kernels.taps));
  }
  prepare_coders();
  if (verify_ && body.header.elements == 0) frame::verify_chunk(body, 0, {}, {});
}

void TensorDecoder::prepare_coders() {
  if (body_->header.pipeline != frame::Pipeline::scaled) {
    for (const entropy::Table& table : tables_) {
      if (table.base != 0)
        fail(ErrorKind::corrupt, "table base: {} found, this pipeline has 0", table.base);
    }
  }
  const frame::TensorHeader& header = body_->header;
  if (header.pipeline == frame::Pipeline::planes) {
    if (header.elements == 0) return;
    for (std::size_t b = 0; b < header.element_bytes(); ++b) {
      if (header.planes[b].mode == frame::PlaneMode::coded)
        first_.add(tables_, header.planes[b].value, 256, header.elements, "plane table");
    }
    for (std::uint64_t c = 0; c < body_->index.size(); ++c) {
      const frame::ChunkEntry& entry = body_->index[c];
      const bool wrong = entry.kind == frame::ChunkKind::mapped ||
                         (entry.kind == frame::ChunkKind::coded && entry.table != 0);
      if (wrong) refuse(c, "has a kind or table that pipeline planes does not have");
    }
    return;
  }
  const bool kernels = header.pipeline == frame::Pipeline::kernels;
  const unsigned alphabet =
      kernels ? predict::kernel_alphabet(taps_.effort) : header.scaled.alphabet();
  for (const frame::ChunkEntry& entry : body_->index) {
    if (entry.kind != frame::ChunkKind::coded && entry.kind != frame::ChunkKind::mapped) continue;
    first_.add(tables_, entry.table, header.scaled.joint ? kCountAlphabet : alphabet,
               header.elements, "chunk table");
    if (kernels) second_.add(tables_, entry.second, alphabet, header.elements, "table of tap 0");
    if (!kernels && body_->has_second)
      second_.add(tables_, entry.second, kCountAlphabet, header.elements, "table of counts");
    if (kernels && header.kernels.counted)
      third_.add(tables_, entry.second + 1u, kCountAlphabet, header.elements, "table of counts");
  }
}

void TensorDecoder::refuse(std::uint64_t c, const char* what) const {
  fail(ErrorKind::corrupt, "chunk {} at byte {}: {}", c, body_->chunk_offset(c), what);
}

void TensorDecoder::decode_sequence(const DecoderSet& set, std::size_t table, std::size_t n,
                                    SequenceCursor& cursor, std::uint8_t* symbols,
                                    std::uint64_t c) const {
  const std::size_t streams = streams_of(table);
  const auto sizes = cursor.sizes.first(streams);
  if (!set.decoder(table).decode(cursor.at, sizes, n, body_->header.streams_log2, symbols)) {
    refuse(c, "has streams that are no code of their table");
  }
  for (const std::uint16_t size : sizes) cursor.at += size;
  cursor.sizes = cursor.sizes.subspan(streams);
}

void TensorDecoder::decode_coded(std::uint64_t c, std::span<std::uint8_t> out,
                                 Scratch& scratch) const {
  const frame::TensorHeader& header = body_->header;
  if (header.pipeline == frame::Pipeline::planes) return decode_planes(c, out, scratch);
  split::with_word(header.dtype, [&](auto word) {
    using Word = decltype(word);
    if (header.pipeline == frame::Pipeline::scaled) return decode_scaled<Word>(c, out, scratch);
    if constexpr (sizeof(Word) < 8) decode_kernels<Word>(c, out, scratch);
  });
}

void TensorDecoder::decode_all(std::span<std::uint8_t> out, Scratch& scratch) const {
  const frame::TensorHeader& header = body_->header;
  const std::size_t width = header.element_bytes();
  for (std::uint64_t c = 0; c < header.chunk_count(); ++c)
    decode_chunk(c, out.subspan(c * header.chunk_elements * width, header.chunk_size(c) * width),
                 scratch);
}

void TensorDecoder::decode_chunk(std::uint64_t c, std::span<std::uint8_t> out,
                                 Scratch& scratch) const {
  const frame::ChunkEntry& entry = body_->index[c];
  const ByteSpan bytes = body_->chunk(c);
  const std::size_t width = body_->header.element_bytes();
  scratch.side_bytes = 0;
  if (entry.kind == frame::ChunkKind::stored) {
    std::memcpy(out.data(), bytes.data(), out.size());
  } else if (entry.kind == frame::ChunkKind::constant && bytes.empty()) {
    std::memset(out.data(), 0, out.size());
  } else if (entry.kind == frame::ChunkKind::constant) {
    for (std::size_t at = 0; at < out.size(); at += width)
      std::memcpy(out.data() + at, bytes.data(), width);
  } else {
    decode_coded(c, out, scratch);
  }
  if (verify_) frame::verify_chunk(*body_, c, out, bytes.first(scratch.side_bytes));
}

}  // namespace gradwire::lossless
