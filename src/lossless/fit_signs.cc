// Signs as a product of a sign a row and a sign a column: the rank-one part of a gradient matrix
// (error x input) decides many of them. Alternating majority votes on a sample of rows give the
// columns' signs; one pass over the tensor then gives every row's.

#include <algorithm>
#include <utility>

#include "base/clones.h"
#include "lossless/survey.h"

namespace gradwire::lossless {
namespace {

constexpr std::size_t kSampleRows = 64;
constexpr int kRounds = 2;
constexpr std::size_t kBlock = 8192;  ///< votes of a block fit in 16 bits

/// Words whose sign bits vote; zeros do not.
template <typename Word>
class SignVotes {
 public:
  SignVotes(const TensorView& tensor, std::size_t columns)
      : tensor_(tensor), columns_(columns), against_(columns), signs_(columns) {}

  /// Alternates from the signs of row `start` on `rows`. Returns the agreement reached.
  GRADWIRE_CLONES std::int64_t alternate(const std::vector<std::uint64_t>& rows,
                                         std::uint64_t start) {
    const Word* first = load(start, 0, columns_);
    for (std::size_t j = 0; j < columns_; ++j) signs_[j] = static_cast<Word>(first[j] >> kShift);
    std::int64_t total = 0;
    std::int64_t before = -1;
    for (int round = 0; round < kRounds && total > before; ++round) {
      std::fill(against_.begin(), against_.end(), Word{0});
      before = std::exchange(total, 0);
      for (const std::uint64_t r : rows) {
        const std::int64_t score = agreement(r);
        total += score < 0 ? -score : score;
        vote(r, score < 0 ? Word{1} : Word{0});
      }
      const auto half =
          static_cast<Word>(rows.size());  // two for each vote, one for each abstention
      for (std::size_t j = 0; j < columns_; ++j) signs_[j] = against_[j] > half ? 1 : 0;
    }
    return total;
  }

  /// How many elements of row r have their column's sign, less how many have the other.
  GRADWIRE_CLONES std::int64_t agreement(std::uint64_t r) {
    std::int64_t sum = 0;
    for (std::size_t column = 0; column < columns_; column += kBlock) {
      const std::size_t n = std::min(columns_ - column, kBlock);
      const Word* words = load(r, column, n);
      const Word* signs = signs_.data() + column;
      Word other = 0;
      Word live = 0;
      for (std::size_t j = 0; j < n; ++j) {
        const auto some = static_cast<Word>(words[j] != 0);
        const auto differs = static_cast<Word>((words[j] >> kShift) ^ signs[j]);
        other = static_cast<Word>(other + (differs & some));
        live = static_cast<Word>(live + some);
      }
      sum += static_cast<std::int64_t>(live) - 2 * static_cast<std::int64_t>(other);
    }
    return sum;
  }

  const std::vector<Word>& signs() const noexcept { return signs_; }
  void set_signs(std::vector<Word> signs) { signs_ = std::move(signs); }

 private:
  static constexpr unsigned kShift = sizeof(Word) * 8 - 1;

  const Word* load(std::uint64_t row, std::size_t column, std::size_t n) {
    return load_words(tensor_, row * columns_ + column, n, buffer_);
  }
  /// Adds 2 for every sign of row r that, turned by the row's own, is negative, 1 for every zero.
  void vote(std::uint64_t r, Word row_sign) {
    const Word* words = load(r, 0, columns_);
    for (std::size_t j = 0; j < columns_; ++j) {
      const auto sign = static_cast<Word>((words[j] >> kShift) ^ row_sign);
      const Word votes = words[j] == 0 ? Word{1} : static_cast<Word>(sign + sign);
      against_[j] = static_cast<Word>(against_[j] + votes);
    }
  }

  const TensorView& tensor_;
  std::size_t columns_;
  std::vector<Word> against_, signs_, buffer_;
};

/// True when signs of which a share of (1 + agreement) / 2 is as guessed may save more than the
/// lines' own signs cost. Near one half the information of n signs is n agreement^2 / (2 ln 2)
/// below n bits, and what was fitted agrees too well with its sample rather than too little.
bool may_pay(std::int64_t agreeing, std::uint64_t sampled, std::uint64_t n, std::uint64_t lines) {
  const double agreement =
      static_cast<double>(agreeing) / static_cast<double>(std::max<std::uint64_t>(sampled, 1));
  constexpr double kInverseTwoLn2 = 0.72135;
  return kInverseTwoLn2 * agreement * agreement * static_cast<double>(n) >=
         static_cast<double>(lines);
}

}  // namespace

template <typename Word>
bool fit_signs(const TensorView& tensor, std::uint64_t columns_wide, std::uint64_t zeros,
               predict::Grid& grid) {
  const auto columns = static_cast<std::size_t>(columns_wide);
  const std::size_t rows = tensor.data.size() / sizeof(Word) / columns;
  const std::size_t sampled = std::min(rows, kSampleRows);
  std::vector<std::uint64_t> sample(sampled);
  for (std::size_t k = 0; k < sampled; ++k) sample[k] = k * rows / sampled;
  SignVotes<Word> votes(tensor, columns);
  const std::uint64_t live = rows * columns - zeros;
  const auto pays = [&](std::int64_t agreeing) {
    return live > 0 && may_pay(agreeing, sampled * live / rows, live, rows + columns);
  };
  const std::int64_t total = votes.alternate(sample, sample[0]);
  if (!pays(total)) return false;
  std::vector<Word> signs = votes.signs();
  if (votes.alternate(sample, sample[sampled / 2]) <= total) votes.set_signs(std::move(signs));
  grid.column_signs.assign(votes.signs().begin(), votes.signs().end());
  grid.row_signs.resize(rows);
  for (std::size_t r = 0; r < rows; ++r) grid.row_signs[r] = votes.agreement(r) < 0;
  return true;
}

template bool fit_signs<std::uint16_t>(const TensorView&, std::uint64_t, std::uint64_t,
                                       predict::Grid&);
template bool fit_signs<std::uint32_t>(const TensorView&, std::uint64_t, std::uint64_t,
                                       predict::Grid&);
template bool fit_signs<std::uint64_t>(const TensorView&, std::uint64_t, std::uint64_t,
                                       predict::Grid&);

}  // namespace gradwire::lossless
