#include "lossless/chunk_encoder.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "lossless/information.h"

namespace gradwire::lossless {
namespace {

/// No table codes a sequence in fewer bits; a thousandth is more than what roundings come to.
std::uint64_t least_bits(const entropy::Counts& counts, bool pairs) noexcept {
  std::uint64_t bits = information_bits(counts.single);
  if (pairs && !counts.pairs.empty()) bits = std::min(bits, information_bits(counts.pairs));
  return bits - bits / 1000;
}

}  // namespace

void Histograms::add(const Histograms& other) noexcept {
  for (std::size_t s = 0; s < kSequences; ++s) {
    for (std::size_t i = 0; i < 256; ++i) single[s][i] += other.single[s][i];
  }
  for (std::size_t i = 0; i < 256; ++i) pairs[i] += other.pairs[i];
}

void Histograms::add(std::size_t sequence, std::span<const std::uint8_t> symbols) noexcept {
  // Four tables, so that equal neighbours do not wait for each other.
  std::array<std::array<std::uint32_t, 256>, 4> parts{};
  std::size_t i = 0;
  for (; i + 4 <= symbols.size(); i += 4) {
    for (std::size_t k = 0; k < 4; ++k) ++parts[k][symbols[i + k]];
  }
  for (; i < symbols.size(); ++i) ++parts[0][symbols[i]];
  SymbolCounts& counts = single[sequence];
  for (std::size_t s = 0; s < 256; ++s)
    counts[s] += parts[0][s] + parts[1][s] + parts[2][s] + parts[3][s];
}

unsigned Histograms::shift() const noexcept {
  std::uint64_t all = 0;
  for (const SymbolCounts& counts : single) {
    for (const std::uint64_t count : counts) all |= count;
  }
  for (const std::uint64_t count : pairs) all |= count;
  return std::max(static_cast<unsigned>(std::bit_width(all)), 32u) - 32;
}

std::array<std::uint32_t, 256> narrow(const SymbolCounts& counts, unsigned shift) noexcept {
  std::array<std::uint32_t, 256> narrowed;
  std::transform(counts.begin(), counts.end(), narrowed.begin(), [&](std::uint64_t count) {
    return count == 0 ? 0 : std::max(static_cast<std::uint32_t>(count >> shift), 1u);
  });
  return narrowed;
}

void Histograms::scale(std::uint64_t factor) noexcept {
  for (SymbolCounts& counts : single) {
    for (std::uint64_t& count : counts) count *= factor;
  }
  for (std::uint64_t& count : pairs) count *= factor;
}

void Histograms::floor(std::size_t sequence, unsigned alphabet) noexcept {
  for (unsigned s = 0; s < alphabet; ++s) ++single[sequence][s];
}

bool ChunkEncoder::keeps_chunks() const noexcept {
  constexpr std::uint64_t kMostBytes = std::uint64_t{8} << 20;
  const frame::TensorHeader& header = plan_->header;
  // Symbols and masks take some four bytes an element in a scratch, words and records three words.
  const std::uint64_t chunk = header.chunk_elements * (4 + 3 * header.element_bytes());
  return header.chunk_count() * chunk <= kMostBytes;
}

ByteSpan ChunkEncoder::chunk_bytes(std::uint64_t c) const noexcept {
  const frame::TensorHeader& header = plan_->header;
  const std::size_t width = header.element_bytes();
  return tensor_->data.subspan(static_cast<std::size_t>(c * header.chunk_elements) * width,
                               header.chunk_size(c) * width);
}

bool ChunkEncoder::is_constant(std::uint64_t c) const noexcept {
  const ByteSpan bytes = chunk_bytes(c);
  const std::size_t width = plan_->header.element_bytes();
  return std::memcmp(bytes.data(), bytes.data() + width, bytes.size() - width) == 0;
}

EncodedChunk ChunkEncoder::encode(std::uint64_t c, Scratch& scratch, Bytes& out) const {
  EncodedChunk chunk;
  const std::size_t start = out.size();
  const ByteSpan bytes = chunk_bytes(c);
  const std::size_t width = plan_->header.element_bytes();
  if (is_constant(c)) {
    chunk.entry.kind = frame::ChunkKind::constant;
    const ByteSpan element = bytes.first(width);
    for (const std::uint8_t byte : element) {
      if (byte == 0) continue;
      out.insert(out.end(), element.begin(), element.end());
      break;
    }
  } else if (plan_->all_stored || !encode_coded(c, scratch, bytes.size(), out, chunk)) {
    chunk = {};
    chunk.entry.kind = frame::ChunkKind::stored;
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  chunk.entry.length = out.size() - start;
  return chunk;
}

bool append_sequence(const entropy::SequenceEncoder& encoder, const entropy::Table& table,
                     unsigned streams_log2, const std::uint8_t* symbols, std::size_t n,
                     Scratch& scratch) {
  const std::size_t at = scratch.streams.size();
  const std::size_t first = scratch.sizes.size();
  scratch.sizes.resize(first + entropy::stream_count(table, streams_log2));
  scratch.streams.resize(at + entropy::encode_room(n));
  const std::size_t written = encoder.encode(symbols, n, streams_log2, scratch.streams.data() + at,
                                             scratch.sizes.data() + first);
  if (written == SIZE_MAX) return false;
  scratch.streams.resize(at + written);
  return true;
}

entropy::Choice choose_for_options(const entropy::Counts& counts, const CompressOptions& options,
                                   std::uint64_t other_bits, unsigned parts,
                                   std::optional<entropy::GennormLayout> layout) {
  const Tables tables =
      options.tables == Tables::gennorm && !layout ? Tables::hybrid : options.tables;
  entropy::Allowed allowed;
  allowed.gennorm_layout = layout.value_or(entropy::GennormLayout{});
  allowed.dynamic = tables == Tables::dynamic || tables == Tables::hybrid;
  allowed.fixed = tables == Tables::fixed || tables == Tables::hybrid;
  allowed.gennorm = tables == Tables::gennorm;
  allowed.pairs = options.pairs;
  allowed.huffman = options.coder != Coder::ans;
  allowed.ans = options.coder == Coder::ans;
  entropy::Choice choice = entropy::choose_table(counts, allowed, parts);
  if (choice.bits == UINT64_MAX) {  // no table of the kind asked for fits this alphabet
    allowed.dynamic = true;
    choice = entropy::choose_table(counts, allowed, parts);
  }
  if (options.coder != Coder::automatic) return choice;
  const auto pays = [&](std::uint64_t ans_bits) {
    return (ans_bits + other_bits) * 100 <= (choice.bits + other_bits) * 99;
  };
  if (!pays(least_bits(counts, allowed.pairs))) return choice;
  allowed.huffman = false;
  allowed.ans = true;
  entropy::Choice ans = entropy::choose_table(counts, allowed, parts);
  if (ans.bits != UINT64_MAX && pays(ans.bits)) choice = std::move(ans);
  return choice;
}

std::unique_ptr<ChunkEncoder> make_chunk_encoder(const TensorView& tensor, Plan& plan) {
  if (plan.header.pipeline == frame::Pipeline::scaled) return make_scaled_encoder(tensor, plan);
  if (plan.header.pipeline == frame::Pipeline::kernels) return make_kernel_encoder(tensor, plan);
  return make_plane_encoder(tensor, plan);
}

}  // namespace gradwire::lossless
