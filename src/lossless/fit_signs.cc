// Signs as a product of a sign a row and a sign a column: the rank-one part of a gradient matrix
// (error x input) decides many of them. Alternating majority votes on a sample of rows give the
// columns' signs; one pass over the tensor then gives every row's.

#include <algorithm>

#include "base/float_format.h"
#include "lossless/survey.h"
#include "stages/split/words.h"

namespace gradwire::lossless {
namespace {

constexpr std::size_t kSampleRows = 64;
constexpr std::size_t kMaxSampled = std::size_t{4} << 20;  ///< signs, for rows are long at times
constexpr int kRounds = 4;

using SignMatrix = std::vector<std::int8_t>;  ///< rows x columns of -1, 0 (no vote), 1

template <typename Word>
void load_signs(const TensorView& tensor, std::uint64_t row, std::size_t columns,
                std::vector<Word>& buffer, std::int8_t* out) {
  const unsigned shift = split::sign_shift(float_format(tensor.dtype));
  const Word* words = load_words(tensor, row * columns, columns, buffer);
  for (std::size_t j = 0; j < columns; ++j) {
    const auto sign = static_cast<std::int8_t>(1 - 2 * static_cast<int>(words[j] >> shift));
    out[j] = words[j] == 0 ? std::int8_t{0} : sign;
  }
}

std::int32_t agreement(const std::int8_t* a, const std::int8_t* b, std::size_t n) noexcept {
  std::int32_t sum = 0;
  for (std::size_t j = 0; j < n; ++j) sum += a[j] * b[j];
  return sum;
}

std::int8_t majority(std::int32_t votes) noexcept {
  return votes < 0 ? std::int8_t{-1} : std::int8_t{1};
}

/// Alternates from a start; `signs` becomes the columns' signs. Returns the agreement reached.
std::int64_t alternate(const SignMatrix& matrix, std::size_t rows,
                       std::vector<std::int8_t>& signs) {
  const std::size_t columns = signs.size();
  std::vector<std::int32_t> votes(columns);
  std::int64_t total = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::fill(votes.begin(), votes.end(), 0);
    total = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      const std::int8_t* row = matrix.data() + r * columns;
      const std::int32_t score = agreement(row, signs.data(), columns);
      const std::int32_t sign = majority(score);
      total += score < 0 ? -score : score;
      for (std::size_t j = 0; j < columns; ++j) votes[j] += sign * row[j];
    }
    std::transform(votes.begin(), votes.end(), signs.begin(), majority);
  }
  return total;
}

std::vector<std::int8_t> fit_columns(const SignMatrix& matrix, std::size_t rows,
                                     std::size_t columns) {
  std::vector<std::int8_t> best;
  std::int64_t most = -1;
  for (const std::size_t start : {std::size_t{0}, rows / 2}) {
    const std::int8_t* row = matrix.data() + start * columns;
    std::vector<std::int8_t> signs(row, row + columns);
    std::replace(signs.begin(), signs.end(), std::int8_t{0}, std::int8_t{1});
    const std::int64_t total = alternate(matrix, rows, signs);
    if (total > most) {
      most = total;
      best = std::move(signs);
    }
  }
  return best;
}

}  // namespace

template <typename Word>
void fit_signs(const TensorView& tensor, std::uint64_t columns_wide, predict::Grid& grid) {
  const auto columns = static_cast<std::size_t>(columns_wide);
  const std::size_t rows = tensor.data.size() / sizeof(Word) / columns;
  const std::size_t most = std::clamp<std::size_t>(kMaxSampled / columns, 2, kSampleRows);
  const std::size_t sampled = std::min(rows, most);
  std::vector<Word> buffer;
  SignMatrix matrix(sampled * columns);
  for (std::size_t k = 0; k < sampled; ++k) {
    load_signs(tensor, k * rows / sampled, columns, buffer, matrix.data() + k * columns);
  }
  const std::vector<std::int8_t> signs = fit_columns(matrix, sampled, columns);
  grid.column_signs.resize(columns);
  std::transform(signs.begin(), signs.end(), grid.column_signs.begin(),
                 [](std::int8_t s) { return s < 0 ? 1 : 0; });
  grid.row_signs.resize(rows);
  std::vector<std::int8_t> row(columns);
  for (std::size_t r = 0; r < rows; ++r) {
    load_signs(tensor, r, columns, buffer, row.data());
    grid.row_signs[r] = agreement(row.data(), signs.data(), columns) < 0;
  }
}

template void fit_signs<std::uint16_t>(const TensorView&, std::uint64_t, predict::Grid&);
template void fit_signs<std::uint32_t>(const TensorView&, std::uint64_t, predict::Grid&);
template void fit_signs<std::uint64_t>(const TensorView&, std::uint64_t, predict::Grid&);

}  // namespace gradwire::lossless
