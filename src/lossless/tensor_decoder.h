// Decoding of one tensor, chunk by chunk (docs/format.md 2 to 6).
// In: a parsed body.
// Out: the bytes of any chunk, checked against its checksum if asked.
// Assumes: the body outlives the decoder. Chunks may be decoded in any order and by several
// threads, each with its own scratch.
#pragma once

#include "frame/tensor_body.h"
#include "lossless/scratch.h"
#include "lossless/table_set.h"
#include "stages/predict/kernels.h"
#include "stages/predict/scaled.h"

namespace gradwire::lossless {

class TensorDecoder {
 public:
  TensorDecoder(const frame::TensorBody& body, bool verify);

  /// Writes chunk c's elements; `out` has exactly their bytes.
  void decode_chunk(std::uint64_t c, std::span<std::uint8_t> out, Scratch& scratch) const;
  /// All chunks, one after the other; `out` has exactly the tensor's bytes.
  void decode_all(std::span<std::uint8_t> out, Scratch& scratch) const;
  const frame::TensorBody& body() const noexcept { return *body_; }
  const std::vector<entropy::Table>& tables() const noexcept { return tables_; }
  const predict::Grid& grid() const noexcept { return grid_; }
  const predict::Taps& taps() const noexcept { return taps_; }

 private:
  void prepare_coders();
  void decode_coded(std::uint64_t c, std::span<std::uint8_t> out, Scratch& scratch) const;
  void decode_planes(std::uint64_t c, std::span<std::uint8_t> out, Scratch& scratch) const;
  template <typename Word>
  void decode_scaled(std::uint64_t c, std::span<std::uint8_t> out, Scratch& scratch) const;
  template <typename Word>
  void decode_kernels(std::uint64_t c, std::span<std::uint8_t> out, Scratch& scratch) const;
  /// Reads the next sequence of `scratch.sizes` and moves both cursors on.
  void decode_sequence(const DecoderSet& set, std::size_t table, std::size_t n,
                       struct SequenceCursor& cursor, std::uint8_t* symbols, std::uint64_t c) const;
  std::size_t streams_of(std::size_t table) const {
    return entropy::stream_count(tables_[table], body_->header.streams_log2);
  }
  /// Mask of coded elements from dead lines and the chunk's flag map; the number of coded ones. The
  /// mask is left alone when all are coded.
  std::size_t coded_mask(std::uint64_t c, ByteReader& in, Scratch& scratch) const;
  [[noreturn]] void refuse(std::uint64_t c, const char* what) const;

  const frame::TensorBody* body_;
  bool verify_;
  std::vector<entropy::Table> tables_;
  predict::Grid grid_;
  predict::Taps taps_;
  DecoderSet first_, second_, third_;
};

}  // namespace gradwire::lossless
