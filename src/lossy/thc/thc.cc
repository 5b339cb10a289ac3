#include "lossy/thc/thc.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/fail.h"
#include "base/lane_sum.h"
#include "lossy/thc/loops.h"

namespace gradwire::lossy {
namespace {

void check_size(const char* name, std::size_t given, std::size_t needed) {
  if (given != needed)
    fail(ErrorKind::invalid_argument, "{}: {} given, {} needed", name, given, needed);
}

void check_norms(std::span<const float> norms, const PowerBlocks& blocks) {
  check_size("norms", norms.size(), blocks.count());
  const auto bad =
      std::ranges::find_if_not(norms, [](float norm) { return norm >= 0 && norm <= kMostNorm; });
  if (bad == norms.end()) return;
  fail(ErrorKind::invalid_argument, "norms: {} given for block {}, 0 to 2^112 are allowed", *bad,
       bad - norms.begin());
}

}  // namespace

bool measure_norms(std::span<const float> values, const PowerBlocks& blocks,
                   std::vector<float>& norms) {
  if (values.size() != blocks.padded()) check_size("values", values.size(), blocks.values());
  norms.clear();
  for (std::size_t k = 0; k < blocks.count(); ++k) {
    const PowerBlocks::Block block = blocks[k];
    const double norm = std::sqrt(squares_of(&values[block.begin], block.values));
    norms.push_back(norm <= double{kMostNorm} ? static_cast<float>(norm)
                                              : std::numeric_limits<float>::infinity());
  }
  return norms_are_usable(norms);
}

bool norms_are_usable(std::span<const float> norms) noexcept {
  return std::ranges::all_of(norms, [](float norm) { return norm >= 0 && norm <= kMostNorm; });
}

void spread_norm(float norm, const PowerBlocks& blocks, std::vector<float>& norms) {
  norms.clear();
  for (std::size_t k = 0; k < blocks.count(); ++k) {
    const double share = static_cast<double>(blocks[k].size) / static_cast<double>(blocks.padded());
    norms.push_back(static_cast<float>(norm * std::sqrt(share)));
  }
}

TableQuantiser::TableQuantiser(const TableOptions& options) : table_(optimal_table(options)) {
  std::ranges::copy(table_.entries, entries_.begin());
  std::uint32_t j = 0;
  for (unsigned cell = 0; cell < table_.top; ++cell) {
    if (cell == entries_[j + 1]) ++j;
    const std::uint32_t low = entries_[j];
    cells_[cell] = cell_word(j, low, entries_[j + 1] - low);
  }
}

void TableQuantiser::quantise(std::span<const float> rotated, const PowerBlocks& blocks,
                              std::span<const float> norms, const Draws& draws,
                              std::span<std::uint8_t> indices) const {
  check_size("rotated", rotated.size(), blocks.padded());
  check_size("indices", indices.size(), blocks.padded());
  check_norms(norms, blocks);
  const auto top = static_cast<std::int32_t>(table_.top);
  for (std::size_t k = 0; k < blocks.count(); ++k) {
    const PowerBlocks::Block block = blocks[k];
    const double units = table_.top / (2 * table_.limit);
    const auto per_norm = static_cast<float>(std::sqrt(static_cast<double>(block.size)) * units);
    const float norm = norms[k] > 0 ? norms[k] : 1;  // all values are zero
    for_each_key(draws, block.begin, block.size,
                 [&](std::size_t at, std::size_t n, const RandomKey& key, std::uint32_t first) {
                   to_indices(&rotated[at], {n, norm, per_norm, top, key, first}, cells_.data(),
                              &indices[at]);
                 });
  }
}

void TableQuantiser::check_indices(std::span<const std::uint8_t> indices) const {
  const std::uint32_t most = largest_of(indices.data(), indices.size());
  if (most >= table_.entries.size())
    fail(ErrorKind::corrupt, "indices: {} found, below {} allowed", most, table_.entries.size());
}

void TableQuantiser::to_entries(std::span<const std::uint8_t> indices,
                                std::span<std::uint8_t> entries) const {
  check_size("entries", entries.size(), indices.size());
  check_indices(indices);
  for (std::size_t i = 0; i < indices.size(); ++i) entries[i] = entries_[indices[i]];
}

void TableQuantiser::add_entries(std::span<const std::uint8_t> indices,
                                 std::span<std::uint32_t> sums) const {
  check_size("sums", sums.size(), indices.size());
  check_indices(indices);
  for (std::size_t i = 0; i < indices.size(); ++i) sums[i] += entries_[indices[i]];
}

template <typename Sum>
void TableQuantiser::decode_sums(std::span<const Sum> sums, std::uint32_t terms,
                                 const PowerBlocks& blocks, std::span<const float> norms,
                                 std::span<float> rotated) const {
  check_size("sums", sums.size(), blocks.padded());
  check_size("rotated", rotated.size(), blocks.padded());
  check_norms(norms, blocks);
  const std::uint64_t most = std::uint64_t{table_.top} * terms;
  if (terms < 1 || most > kMostSum)
    fail(ErrorKind::invalid_argument, "terms: {} given, 1 to {} are allowed", terms,
         kMostSum / table_.top);
  const std::uint32_t found = largest_of(sums.data(), sums.size());
  if (found > most)
    fail(ErrorKind::corrupt, "sums: {} found, at most {} allowed for {} ranks", found, most, terms);
  const double unit = table_.limit / static_cast<double>(most);
  for (std::size_t k = 0; k < blocks.count(); ++k) {
    const auto [begin, size, used] = blocks[k];
    const double factor = unit * double{norms[k]} / std::sqrt(static_cast<double>(size));
    from_sums(&sums[begin], size, static_cast<std::uint32_t>(most), static_cast<float>(factor),
              &rotated[begin]);
  }
}

void TableQuantiser::decode(std::span<const std::uint32_t> sums, std::uint32_t terms,
                            const PowerBlocks& blocks, std::span<const float> norms,
                            std::span<float> rotated) const {
  decode_sums(sums, terms, blocks, norms, rotated);
}

void TableQuantiser::decode(std::span<const std::uint8_t> entries, const PowerBlocks& blocks,
                            std::span<const float> norms, std::span<float> rotated) const {
  decode_sums(entries, 1, blocks, norms, rotated);
}

}  // namespace gradwire::lossy
