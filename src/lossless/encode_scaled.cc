// Chunks of the scaled pipeline, encoded.

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/count_bytes.h"
#include "base/counted.h"
#include "lossless/chunk_encoder.h"
#include "lossless/chunk_parts.h"
#include "lossless/side_info.h"
#include "stages/entropy/integer_array.h"
#include "stages/split/records.h"
#include "stages/split/words.h"

namespace gradwire::lossless {
namespace {

/// A chunk's symbols and records, without what its side information locates.
template <typename Word>
struct Symbolised {
  const std::uint8_t* symbols = nullptr;
  std::size_t coded = 0;
  const Word* records = nullptr;
  std::size_t record_count = 0;
  std::size_t escapes = 0;
  bool mapped = false;
};

/// Pairs, and single symbols from them: the partner of an odd last symbol stands for none.
void count_pairs(const std::uint8_t* symbols, std::size_t n, Histograms& histograms) noexcept {
  std::array<std::array<std::uint32_t, 256>, 2> parts{};
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (std::size_t k = 0; k < 2; ++k)
      ++parts[k][symbols[i + 2 * k] | symbols[i + 2 * k + 1] << 4];
  }
  for (; i + 2 <= n; i += 2) ++parts[0][symbols[i] | symbols[i + 1] << 4];
  SymbolCounts& single = histograms.single[0];
  for (std::size_t pair = 0; pair < 256; ++pair) {
    const std::uint64_t count = std::uint64_t{parts[0][pair]} + parts[1][pair];
    histograms.pairs[pair] += count;
    single[pair & 15] += count;
    single[pair >> 4] += count;
  }
  if (i == n) return;
  ++histograms.pairs[symbols[i]];
  ++single[symbols[i]];
}

template <typename Word>
class ScaledEncoder final : public ChunkEncoder {
 public:
  ScaledEncoder(const TensorView& tensor, Plan& plan)
      : ChunkEncoder(tensor, plan),
        kept_(keeps_chunks() ? static_cast<std::size_t>(plan.header.chunk_count()) : 0) {}

  /// Pair codes need the pairs that occur; single ones can spare a code for each of their symbols.
  bool counts_by_sample() const noexcept override { return alphabet() > 16; }
  void floor_counts(Histograms& histograms) const noexcept override {
    histograms.floor(0, alphabet());
    if (has_second()) histograms.floor(1, kCountAlphabet);
  }

  void count(std::uint64_t c, std::size_t n, Scratch& scratch,
             Histograms& histograms) const override {
    if (is_constant(c)) return;
    const Symbolised<Word> chunk = symbolise(c, n, scratch);
    if (c < kept_.size() && n == plan_->header.chunk_size(c)) kept_[c] = chunk;
    if (alphabet() <= 16) {
      count_pairs(chunk.symbols, chunk.coded, histograms);
    } else {
      histograms.add(0, {chunk.symbols, chunk.coded});
    }
    if (!has_second()) return;
    histograms.add(1, {scratch.second.data(), chunk.record_count});
  }

  void choose_tables(const Histograms& histograms, const CompressOptions& options) override {
    const auto parts = static_cast<unsigned>(plan_->header.chunk_count());
    const unsigned shift = histograms.shift();
    const auto single = narrow(histograms.single[0], shift);
    const auto pairs = narrow(histograms.pairs, shift);
    entropy::Counts counts{std::span(single).first(alphabet()), {}};
    if (alphabet() <= 16) counts.pairs = pairs;
    const std::uint64_t raw_bits =
        (std::uint64_t{plan_->header.elements} >> shift) * parameters().record_bits();
    const entropy::GennormLayout layout{parameters().step_log2,
                                        parameters().sign_mode != SignMode::raw};
    plan_->tables.push_back(choose_for_options(counts, options, raw_bits, parts, layout).table);
    plan_->tables.back().base = plan_->base;
    if (has_second()) {
      const auto v = narrow(histograms.single[1], shift);
      const entropy::Counts second{std::span(v).first(kCountAlphabet), {}};
      plan_->tables.push_back(choose_for_options(second, options, raw_bits, parts).table);
      plan_->second = 1;
    }
    for (const entropy::Table& table : plan_->tables)
      coders_.push_back(entropy::make_encoder(table));
  }

 protected:
  bool encode_coded(std::uint64_t c, Scratch& scratch, std::size_t limit, Bytes& out,
                    EncodedChunk& result) const override {
    const Symbolised<Word> chunk = c < kept_.size() && kept_[c]
                                       ? *kept_[c]
                                       : symbolise(c, plan_->header.chunk_size(c), scratch);
    const unsigned streams_log2 = plan_->header.streams_log2;
    scratch.streams.clear();
    scratch.sizes.clear();
    if (!append_sequence(*coders_[0], plan_->tables[0], streams_log2, chunk.symbols, chunk.coded,
                         scratch))
      return false;
    if (has_second()) {
      if (!append_sequence(*coders_[1], plan_->tables[1], streams_log2, scratch.second.data(),
                           chunk.record_count, scratch)) {
        return false;
      }
    }
    if (!parameters().counted) {
      const unsigned q = parameters().record_bits();
      scratch.raw.resize(split::record_room(chunk.record_count, q));
      split::pack_records(chunk.records, chunk.record_count, q, scratch.raw.data());
      scratch.raw.resize(split::record_bytes(chunk.record_count, q));
    }
    result.entry.kind = chunk.mapped ? frame::ChunkKind::mapped : frame::ChunkKind::coded;
    result.entry.table = plan_->primary;
    result.entry.second = plan_->second;
    result.side_bytes = scratch.side.size();
    return join_chunk(scratch, chunk.escapes, limit, out);
  }

 private:
  const ScaledParameters& parameters() const noexcept { return plan_->header.scaled; }
  bool has_second() const noexcept { return frame::has_second_sequence(plan_->header); }
  /// Of the primary sequence.
  unsigned alphabet() const noexcept {
    return parameters().joint ? kCountAlphabet : parameters().alphabet();
  }

  Symbolised<Word> symbolise(std::uint64_t c, std::size_t n, Scratch& scratch) const {
    Symbolised<Word> chunk = predict_symbols(c, n, scratch);
    if (parameters().counted) scratch.raw.resize(pack_counted(chunk, scratch));
    if (parameters().joint) join_counts(scratch, chunk);
    return chunk;
  }

  /// Interleaves the symbols with the counts in scratch.second.
  void join_counts(Scratch& scratch, Symbolised<Word>& chunk) const {
    std::uint8_t* both = Scratch::sized(scratch.joint, 2 * chunk.coded);
    const unsigned zero = parameters().zero_symbol();
    std::size_t k = 0;
    for (std::size_t i = 0; i < chunk.coded; ++i) {
      const bool some = chunk.symbols[i] != zero;
      both[2 * i] = chunk.symbols[i];
      both[2 * i + 1] = some ? scratch.second[k] : std::uint8_t{0};
      k += some;
    }
    chunk.symbols = both;
    chunk.coded *= 2;
  }

  /// Symbols and records of the chunk's first n elements.
  Symbolised<Word> predict_symbols(std::uint64_t c, std::size_t n, Scratch& scratch) const {
    const std::uint64_t first = c * plan_->header.chunk_elements;
    const Word* words = load_words(*tensor_, first, n, std::get<std::vector<Word>>(scratch.words));
    std::uint8_t* symbols = Scratch::sized(scratch.symbols, n);
    Word* records = Scratch::sized<Word>(scratch.records, n);
    scratch.escapes.clear();
    scratch.side.clear();
    const bool dead = has_dead(plan_->grid);
    const predict::ScaledRun run{
        float_format(tensor_->dtype), &parameters(), &plan_->grid, plan_->base, first, n};
    // Dead elements get the zero symbol too and are dropped below.
    const std::size_t escapes = predict::apply_scaled(run, words, plan_->map_zeros || dead, symbols,
                                                      records, scratch.escapes);
    Symbolised<Word> chunk{symbols, n, records, n, escapes, false};
    const auto zero = static_cast<std::uint8_t>(parameters().zero_symbol());
    const auto zeros = count_byte(symbols, n, zero);
    if (zeros == 0) return chunk;
    if (!plan_->map_zeros && !dead) {
      chunk.record_count = drop_records(symbols, zero, n, records);
      return chunk;
    }
    std::uint8_t* mask = Scratch::sized(scratch.mask, n);
    const std::size_t live = live_mask(plan_->grid, parameters(), first, n, mask);
    if (live == n) std::fill_n(mask, n, std::uint8_t{1});
    if (plan_->map_zeros && zeros > n - live) {
      write_map(symbols, n, zero, live, scratch);
      chunk.mapped = true;
    }
    compact(plan_->map_zeros, zero, n, scratch, chunk);
    return chunk;
  }

  /// Closes the gaps that zeros leave among the records; returns how many are left.
  static std::size_t drop_records(const std::uint8_t* symbols, std::uint8_t zero, std::size_t n,
                                  Word* records) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const auto* next = static_cast<const std::uint8_t*>(std::memchr(symbols + i, zero, n - i));
      const std::size_t end = next == nullptr ? n : static_cast<std::size_t>(next - symbols);
      if (kept != i) std::memmove(records + kept, records + i, (end - i) * sizeof(Word));
      kept += end - i;
      i = end;
    }
    return kept;
  }

  /// Writes the flag map of live zeros.
  static void write_map(const std::uint8_t* symbols, std::size_t n, std::uint8_t zero,
                        std::size_t live, Scratch& scratch) {
    std::uint8_t* flags = Scratch::sized(scratch.compact, n);
    std::size_t k = 0;
    for (std::size_t i = 0; i < n; ++i) {
      flags[k] = symbols[i] == zero;
      k += scratch.mask[i];
    }
    ByteWriter writer(scratch.side);
    entropy::write_flags({flags, live}, writer);
  }

  /// Drops symbols of located zeros, and records of all zeros.
  static void compact(bool map_zeros, std::uint8_t zero, std::size_t n, Scratch& scratch,
                      Symbolised<Word>& chunk) {
    std::uint8_t* symbols = Scratch::sized(scratch.compact, n + 1);
    Word* records = Scratch::sized<Word>(scratch.packed, n + 1);
    std::size_t s = 0;
    std::size_t r = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint8_t symbol = chunk.symbols[i];
      const bool some = symbol != zero;
      symbols[s] = symbol;
      s += some || (!map_zeros && scratch.mask[i] != 0);
      records[r] = chunk.records[i];
      r += some;
    }
    chunk.symbols = symbols;
    chunk.coded = s;
    chunk.records = records;
    chunk.record_count = r;
  }

  /// Fills scratch.second and scratch.raw; returns the raw bytes.
  std::size_t pack_counted(const Symbolised<Word>& chunk, Scratch& scratch) const {
    std::uint8_t* second = Scratch::sized(scratch.second, chunk.record_count);
    scratch.raw.resize(chunk.record_count * sizeof(Word) + 64);
    BitWriter bits(scratch.raw.data());
    split::pack_counted(chunk.records, chunk.record_count,
                        {parameters().rest_bits(), parameters().low_count},
                        parameters().sign_mode == SignMode::raw, second, bits);
    return bits.finish();
  }

  std::vector<std::unique_ptr<entropy::SequenceEncoder>> coders_;
  mutable std::vector<std::optional<Symbolised<Word>>> kept_;
};

}  // namespace

std::unique_ptr<ChunkEncoder> make_scaled_encoder(const TensorView& tensor, Plan& plan) {
  return split::with_word(tensor.dtype, [&](auto word) -> std::unique_ptr<ChunkEncoder> {
    return std::make_unique<ScaledEncoder<decltype(word)>>(tensor, plan);
  });
}

}  // namespace gradwire::lossless
