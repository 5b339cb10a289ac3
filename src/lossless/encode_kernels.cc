// Chunks of the kernels pipeline, encoded.

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/counted.h"
#include "lossless/chunk_encoder.h"
#include "lossless/chunk_parts.h"
#include "stages/entropy/integer_array.h"
#include "stages/predict/kernels_fit.h"
#include "stages/split/records.h"

namespace gradwire::lossless {
namespace {

template <typename Word>
class KernelEncoder final : public ChunkEncoder {
 public:
  KernelEncoder(const TensorView& tensor, Plan& plan)
      : ChunkEncoder(tensor, plan),
        kept_(keeps_chunks() ? static_cast<std::size_t>(plan.header.chunk_count()) : 0) {}

  bool counts_by_sample() const noexcept override { return true; }
  void floor_counts(Histograms& histograms) const noexcept override {
    for (const std::size_t s : {0, 1})
      histograms.floor(s, predict::kernel_alphabet(plan_->taps.effort));
    if (parameters().counted) histograms.floor(2, kCountAlphabet);
  }

  void count(std::uint64_t c, std::size_t n, Scratch& scratch,
             Histograms& histograms) const override {
    if (is_constant(c)) return;
    const auto group = static_cast<std::size_t>(parameters().taps * parameters().inner);
    const predict::KernelSymbols<Word> chunk =
        symbolise(c, std::max(n / group, std::size_t{1}) * group, scratch);
    if (c < kept_.size() && n == plan_->header.chunk_size(c)) kept_[c] = chunk;
    histograms.add(0, {chunk.symbols, chunk.first_tap});
    histograms.add(1, {chunk.symbols + chunk.first_tap, chunk.count - chunk.first_tap});
    if (parameters().counted) histograms.add(2, {chunk.second, chunk.count});
  }

  void choose_tables(const Histograms& histograms, const CompressOptions& options) override {
    const auto parts = static_cast<unsigned>(plan_->header.chunk_count());
    const unsigned alphabet = predict::kernel_alphabet(plan_->taps.effort);
    const unsigned shift = histograms.shift();
    const std::uint64_t raw_bits = (plan_->header.elements >> shift) * (5 + low_bits());
    CompressOptions dynamic = options;  // no prebuilt table covers lattice symbols
    dynamic.tables = Tables::dynamic;
    for (std::size_t s = 0; s < (parameters().counted ? 3u : 2u); ++s) {
      const auto counts = narrow(histograms.single[s], shift);
      const entropy::Counts sequence{std::span(counts).first(s < 2 ? alphabet : kCountAlphabet),
                                     {}};
      plan_->tables.push_back(choose_for_options(sequence, dynamic, raw_bits, parts).table);
    }
    // The index names the table of later taps first; that of tap 0 is followed by that of the
    // counts.
    std::swap(plan_->tables[0], plan_->tables[1]);
    plan_->primary = 0;
    plan_->second = 1;
    for (const entropy::Table& table : plan_->tables)
      coders_.push_back(entropy::make_encoder(table));
  }

 protected:
  bool encode_coded(std::uint64_t c, Scratch& scratch, std::size_t limit, Bytes& out,
                    EncodedChunk& result) const override {
    const predict::KernelSymbols<Word> chunk =
        c < kept_.size() && kept_[c] ? *kept_[c]
                                     : symbolise(c, plan_->header.chunk_size(c), scratch);
    const auto append = [&](std::size_t table, const std::uint8_t* symbols, std::size_t n) {
      return append_sequence(*coders_[table], plan_->tables[table], plan_->header.streams_log2,
                             symbols, n, scratch);
    };
    scratch.streams.clear();
    scratch.sizes.clear();
    if (!append(1, chunk.symbols, chunk.first_tap)) return false;
    if (!append(0, chunk.symbols + chunk.first_tap, chunk.count - chunk.first_tap)) return false;
    if (parameters().counted && !append(2, chunk.second, chunk.count)) return false;
    if (!parameters().counted && low_bits() > 0) {
      const std::size_t at = scratch.raw.size();
      scratch.raw.resize(at + split::record_room(chunk.count, low_bits()));
      split::pack_records(chunk.low, chunk.count, low_bits(), scratch.raw.data() + at);
      scratch.raw.resize(at + split::record_bytes(chunk.count, low_bits()));
    }
    result.entry.kind = scratch.has_map ? frame::ChunkKind::mapped : frame::ChunkKind::coded;
    result.entry.table = plan_->primary;
    result.entry.second = plan_->second;
    result.side_bytes = scratch.side.size();
    return join_chunk(scratch, chunk.escapes, limit, out);
  }

 private:
  const KernelParameters& parameters() const noexcept { return plan_->header.kernels; }
  unsigned low_bits() const noexcept {
    return parameters().kept - predict::kernel_fraction(tensor_->dtype);
  }

  /// The chunk's first n elements, which are whole kernels.
  predict::KernelSymbols<Word> symbolise(std::uint64_t c, std::size_t n, Scratch& scratch) const {
    const Word* words = load_words(*tensor_, c * plan_->header.chunk_elements, n,
                                   std::get<std::vector<Word>>(scratch.words));
    scratch.side.clear();
    scratch.escapes.clear();
    ByteWriter side(scratch.side);
    const auto zeros = static_cast<std::size_t>(std::count(words, words + n, Word{0}));
    scratch.has_map = zeros > 0;
    std::uint8_t* mask = nullptr;
    if (scratch.has_map) mask = write_map(words, n, side, scratch);
    scratch.scales.resize(n / static_cast<std::size_t>(parameters().taps));
    predict::fit_kernel_scales(tensor_->dtype, parameters(), plan_->taps, words, n, scratch.scales);
    entropy::write_integers(scratch.scales, side);

    predict::KernelSymbols<Word> chunk{
        Scratch::sized(scratch.symbols, n), 0, 0, Scratch::sized<Word>(scratch.records, n),
        Scratch::sized(scratch.second, n),  0};
    scratch.raw.resize(n * (sizeof(Word) + 1) + 64);
    BitWriter raw(scratch.raw.data());
    const predict::KernelRun run{tensor_->dtype,        &parameters(), &plan_->taps,
                                 scratch.scales.data(), mask,          n};
    predict::apply_kernels(run, words, std::get<predict::KernelScratch<Word>>(scratch.kernels),
                           chunk, raw, scratch.escapes);
    scratch.raw.resize(raw.finish());
    return chunk;
  }

  static std::uint8_t* write_map(const Word* words, std::size_t n, ByteWriter& side,
                                 Scratch& scratch) {
    std::uint8_t* mask = Scratch::sized(scratch.mask, n);
    std::uint8_t* flags = Scratch::sized(scratch.compact, n);
    for (std::size_t i = 0; i < n; ++i) {
      flags[i] = words[i] == 0;
      mask[i] = flags[i] ^ 1;
    }
    entropy::write_flags({flags, n}, side);
    return mask;
  }

  std::vector<std::unique_ptr<entropy::SequenceEncoder>> coders_;
  mutable std::vector<std::optional<predict::KernelSymbols<Word>>> kept_;
};

}  // namespace

std::unique_ptr<ChunkEncoder> make_kernel_encoder(const TensorView& tensor, Plan& plan) {
  if (tensor.dtype == DType::f32)
    return std::make_unique<KernelEncoder<std::uint32_t>>(tensor, plan);
  return std::make_unique<KernelEncoder<std::uint16_t>>(tensor, plan);
}

}  // namespace gradwire::lossless
