// Encoding of one tensor's chunks under a plan.
// In: a plan and the tensor.
// Out: counts of symbols (to choose tables from), then coded chunks.
// Assumes: count() and encode() may run for several chunks at once, each with its own scratch.
#pragma once

#include <memory>
#include <optional>

#include "frame/tensor_body.h"
#include "lossless/plan.h"
#include "lossless/scratch.h"

namespace gradwire::lossless {

using SymbolCounts = std::array<std::uint64_t, 256>;

/// Counts of up to eight sequences (the planes of an f64; others use two or three).
struct Histograms {
  static constexpr std::size_t kSequences = 8;
  std::array<SymbolCounts, kSequences> single{};
  SymbolCounts pairs{};  ///< of sequence 0

  void add(const Histograms& other) noexcept;
  /// Counts more symbols of a sequence.
  void add(std::size_t sequence, std::span<const std::uint8_t> symbols) noexcept;
  /// Bits by which all counts are shifted right so that each has 32: 0 below 2^32 elements.
  unsigned shift() const noexcept;
  /// Multiplies all counts: what a share of the elements stands for.
  void scale(std::uint64_t factor) noexcept;
  /// Counts the first `alphabet` symbols of a sequence once more, so that each has a code.
  void floor(std::size_t sequence, unsigned alphabet) noexcept;
};

/// Counts as the choice of tables takes them; what occurs keeps a count of at least 1.
std::array<std::uint32_t, 256> narrow(const SymbolCounts& counts, unsigned shift) noexcept;

/// What encode() put behind its output.
struct EncodedChunk {
  frame::ChunkEntry entry;
  std::size_t side_bytes = 0;
};

class ChunkEncoder {
 public:
  virtual ~ChunkEncoder() = default;
  /// True when counts of a share of the elements will do: the code then gets room for every symbol.
  virtual bool counts_by_sample() const noexcept { return false; }
  /// True when chunks are kept once counted whole: encode() must then get the scratch that count()
  /// got for the chunk, untouched in between.
  bool keeps_chunks() const noexcept;
  /// Adds the symbols of chunk c's first n elements to the counts; constant chunks add none.
  virtual void count(std::uint64_t c, std::size_t n, Scratch& scratch,
                     Histograms& histograms) const = 0;
  /// Chooses tables from the counts and puts them into the plan. Call once.
  virtual void choose_tables(const Histograms& histograms, const CompressOptions& options) = 0;
  /// Gives every symbol of every alphabet a count (for counts by sample).
  virtual void floor_counts(Histograms&) const noexcept {}
  /// Appends chunk c to `out`.
  EncodedChunk encode(std::uint64_t c, Scratch& scratch, Bytes& out) const;

 protected:
  ChunkEncoder(const TensorView& tensor, Plan& plan) : tensor_(&tensor), plan_(&plan) {}
  /// Appends the coded form, or leaves `out` alone and returns false when it is not under `limit`
  /// bytes.
  virtual bool encode_coded(std::uint64_t c, Scratch& scratch, std::size_t limit, Bytes& out,
                            EncodedChunk& chunk) const = 0;
  ByteSpan chunk_bytes(std::uint64_t c) const noexcept;
  bool is_constant(std::uint64_t c) const noexcept;

  const TensorView* tensor_;
  Plan* plan_;
};

/// The encoder of the plan's pipeline; both arguments must outlive it.
std::unique_ptr<ChunkEncoder> make_chunk_encoder(const TensorView& tensor, Plan& plan);
std::unique_ptr<ChunkEncoder> make_scaled_encoder(const TensorView& tensor, Plan& plan);
std::unique_ptr<ChunkEncoder> make_kernel_encoder(const TensorView& tensor, Plan& plan);
std::unique_ptr<ChunkEncoder> make_plane_encoder(const TensorView& tensor, Plan& plan);

/// Appends a sequence's streams and sizes to scratch.streams and scratch.sizes; false when a size
/// does not fit.
bool append_sequence(const entropy::SequenceEncoder& encoder, const entropy::Table& table,
                     unsigned streams_log2, const std::uint8_t* symbols, std::size_t n,
                     Scratch& scratch);

/// The cheapest table for a sequence of `parts` chunks under the options; ans only where it saves 1
/// % of `other_bits` + the sequence when the coder is automatic. Without a layout the sequence has
/// no gennorm model, and instead of these tables it gets the others.
entropy::Choice choose_for_options(const entropy::Counts& counts, const CompressOptions& options,
                                   std::uint64_t other_bits, unsigned parts,
                                   std::optional<entropy::GennormLayout> layout = std::nullopt);

}  // namespace gradwire::lossless
