#include "lossless/table_trainer.h"

#include <algorithm>

#include "base/counted.h"
#include "base/formatted.h"
#include "base/hash.h"
#include "lossless/chunk_encoder.h"
#include "lossless/planner.h"

namespace gradwire::lossless {
namespace {

constexpr std::size_t kLeastPiece = 512;
constexpr std::size_t kMostPiece = std::size_t{64} << 10;
constexpr std::size_t kPiecesASize = 8;    ///< of one tensor, so that no size outweighs the others
constexpr unsigned kPlainAlphabet = 16;    ///< of a window of 14 residuals with zero and escape
constexpr unsigned kFlippedAlphabet = 30;  ///< of the same with sign flips; other windows vary

/// Tables of sequences of one use say nothing of others; of dynamic ones no plan depends on the
/// family that this build has.
CompressOptions training_options(CompressOptions options) {
  options.tables = Tables::dynamic;
  options.threads = 1;
  return options;
}

}  // namespace

HistogramCollector::HistogramCollector(const CompressOptions& options)
    : options_(training_options(options)) {}

void HistogramCollector::add(const TensorView& tensor) {
  if (!is_float(tensor.dtype) || tensor.data.empty()) return;
  add_whole(tensor);
  for (std::size_t bytes = kLeastPiece; bytes <= kMostPiece; bytes *= 2) {
    for (const Tensor& piece : cut_pieces(tensor, bytes, kPiecesASize)) {
      add_whole({piece.dtype, piece.shape, piece.data});
    }
  }
}

void HistogramCollector::add_whole(const TensorView& tensor) {
  Plan plan = make_plans(tensor, options_).best;
  if (plan.all_stored || plan.header.pipeline != frame::Pipeline::scaled) return;
  Histograms counts;
  Scratch scratch;
  const auto encoder = make_chunk_encoder(tensor, plan);
  for (std::uint64_t c = 0; c < plan.header.chunk_count(); ++c)
    encoder->count(c, plan.header.chunk_size(c), scratch, counts);
  const ScaledParameters& p = plan.header.scaled;
  const unsigned shift = counts.shift();
  const auto single = narrow(counts.single[0], shift);
  const auto pairs = narrow(counts.pairs, shift);
  if (p.joint) return keep({SequenceUse::joint_pairs, kCountAlphabet}, pairs);
  const unsigned alphabet = p.alphabet();
  if (alphabet == kPlainAlphabet || alphabet == kFlippedAlphabet) {
    keep({SequenceUse::symbols, alphabet}, std::span(single).first(alphabet));
  }
  if (alphabet == kPlainAlphabet) keep({SequenceUse::symbol_pairs, alphabet}, pairs);
  if (p.counted) {
    const auto v = narrow(counts.single[1], shift);
    keep({SequenceUse::counts, kCountAlphabet}, std::span(v).first(kCountAlphabet));
  }
}

void HistogramCollector::keep(Use use, std::span<const std::uint32_t> counts) {
  entropy::ScaledHistogram scaled = entropy::scale_histogram(counts);
  if (!scaled.empty()) histograms_[use].push_back(std::move(scaled));
}

std::vector<entropy::StaticTable> HistogramCollector::family(unsigned tables) const {
  std::vector<entropy::StaticTable> family;
  for (const auto& [use, members] : histograms_) {
    const bool pairs = use.use == SequenceUse::symbol_pairs || use.use == SequenceUse::joint_pairs;
    const unsigned symbols = pairs ? entropy::kMaxSymbols : use.alphabet;
    for (const entropy::Values& values : entropy::cluster_tables(members, symbols, tables)) {
      family.push_back({family.size() + 1, use.alphabet, pairs, values});
    }
  }
  return family;
}

std::vector<Tensor> cut_pieces(const TensorView& tensor, std::size_t bytes, std::size_t most) {
  std::vector<Tensor> pieces;
  if (tensor.data.size() <= bytes) return pieces;
  const std::size_t width = element_size(tensor.dtype);
  const std::uint64_t rows = tensor.shape.size() < 2 ? 1 : tensor.shape[0];
  const auto row = static_cast<std::size_t>(tensor.data.size() / rows);
  const bool in_rows = rows > 1 && row <= bytes;
  const std::size_t unit = in_rows ? row : width;
  const std::size_t size = bytes / unit * unit;
  // Parts of a row must not go on in the next one: each has bytes / size parts and a rest.
  const std::size_t a_row = in_rows ? tensor.data.size() / size : row / size;
  const std::size_t count = in_rows ? a_row : a_row * static_cast<std::size_t>(rows);
  const std::size_t taken = std::min(most, count);
  for (std::size_t k = 0; k < taken; ++k) {
    const std::size_t piece = k * count / taken;
    const std::size_t at = in_rows ? piece * size : piece / a_row * row + piece % a_row * size;
    Tensor cut{tensor.dtype, {size / unit}, {}};
    if (in_rows) cut.shape.insert(cut.shape.end(), tensor.shape.begin() + 1, tensor.shape.end());
    const auto part = tensor.data.subspan(at, size);
    cut.data.assign(part.begin(), part.end());
    pieces.push_back(std::move(cut));
  }
  return pieces;
}

std::string family_text(const std::vector<entropy::StaticTable>& family,
                        const std::string& provenance) {
  std::string text =
      "// Written by `gradwire train-tables`; do not edit. One table a line, in ascending id:\n"
      "//   {id, alphabet, pairs, {frequencies of symbol 0, 1, ..., which sum to 4096}},\n";
  for (std::size_t at = 0; at < provenance.size();) {
    const std::size_t end = std::min(provenance.find('\n', at), provenance.size());
    text += formatted("// {}\n", provenance.substr(at, end - at));
    at = end + 1;
  }
  text += formatted("// XXH3-64 of the canonical bytes: {:016x}\n",
                    hash64(entropy::canonical_bytes(family)));
  text += "// clang-format off\n";
  for (const entropy::StaticTable& table : family) {
    const unsigned symbols = table.pairs ? entropy::kMaxSymbols : table.alphabet;
    text += formatted("{{{},{},{},{{", table.id, table.alphabet, table.pairs ? 1 : 0);
    for (unsigned s = 0; s < symbols; ++s) {
      text += formatted("{}{}", s == 0 ? "" : ",", table.frequencies[s]);
    }
    text += "}},\n";
  }
  return text + "// clang-format on\n";
}

}  // namespace gradwire::lossless
