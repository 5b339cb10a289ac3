#include "lossless/survey.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/clones.h"
#include "base/float_format.h"
#include "lossless/side_info.h"
#include "stages/split/words.h"

namespace gradwire::lossless {
namespace {

constexpr std::size_t kBlock = 8192;
constexpr std::uint64_t kSampleRuns = 8;
constexpr std::uint64_t kLeastSample = 2048;  ///< elements that are not zero
constexpr std::uint64_t kMostSample = 8192;
constexpr std::uint64_t kSampleShare = 16;  ///< a sample is this part of a tensor, within these
constexpr std::uint64_t kMostSampledElements = 65536;

std::uint64_t row_count(const TensorView& tensor, std::uint64_t columns) {
  return tensor.data.size() / element_size(tensor.dtype) / columns;
}

/// A row of any length is read through this in blocks.
template <typename Word>
class RowReader {
 public:
  RowReader(const TensorView& tensor, std::uint64_t columns)
      : tensor_(tensor),
        columns_(columns),
        buffer_(static_cast<std::size_t>(std::min<std::uint64_t>(columns, kBlock))) {}
  /// Calls function(words, first column, n) over row r.
  template <typename Function>
  void operator()(std::uint64_t r, const Function& function) {
    for (std::uint64_t column = 0; column < columns_; column += kBlock) {
      const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(columns_ - column, kBlock));
      function(load_words(tensor_, r * columns_ + column, n, buffer_),
               static_cast<std::size_t>(column), n);
    }
  }

 private:
  const TensorView& tensor_;
  std::uint64_t columns_;
  std::vector<Word> buffer_;
};

/// Dead flags cost about two bytes a run of lines; a few dead elements are cheaper as zeros.
void keep_if_worth(std::vector<std::uint8_t>& dead, std::uint64_t line) {
  std::uint64_t count = 0;
  std::uint64_t runs = 0;
  for (std::size_t i = 0; i < dead.size(); ++i) {
    count += dead[i];
    runs += dead[i] != 0 && (i == 0 || dead[i - 1] == 0);
  }
  if (count == 0 || count * line < 32 + 8 * runs) dead.clear();
}

std::int32_t rounded_shift(std::int64_t value, unsigned shift) noexcept {
  return static_cast<std::int32_t>((value + (std::int64_t{1} << shift >> 1)) >> shift);
}

std::int64_t mean(std::int64_t sum, std::int64_t count) noexcept {
  if (count == 0) return 0;
  return sum >= 0 ? (sum + count / 2) / count : -((-sum + count / 2) / count);
}

/// Exponent and four fraction bits: log2 |x| in sixteenths of an octave. Calls function(log), which
/// maps words, with a shift that is constant for 16-bit words: loops then stay in 16 bits.
template <typename Word, typename Function>
void with_log(FloatFormat format, const Function& function) {
  const auto with_shift = [&](auto shift) {
    function([shift](Word word) {
      constexpr Word kMagnitude = split::low_mask<Word>(sizeof(Word) * 8 - 1);
      return static_cast<Word>(static_cast<Word>(word & kMagnitude) >> shift);
    });
  };
  if (format.fraction_bits == 7) return with_shift(std::integral_constant<unsigned, 3>());
  if (format.fraction_bits == 10) return with_shift(std::integral_constant<unsigned, 6>());
  with_shift(format.fraction_bits - 4);
}

/// Means of a tensor without zeros: one sweep over rows and columns is exact.
template <typename Word>
GRADWIRE_CLONES ScaleMeans fit_dense(const TensorView& tensor, std::uint64_t columns) {
  constexpr std::size_t kFlushRows = 8;  // logarithms have 13 bits in 16-bit formats, 15 in f64
  const auto rows = static_cast<std::size_t>(row_count(tensor, columns));
  const auto width = static_cast<std::size_t>(columns);
  RowReader<Word> read(tensor, columns);
  std::vector<std::int64_t> totals(width, 0);
  std::vector<Word> sums(width, 0);
  ScaleMeans means;
  means.rows.reserve(rows);
  std::int64_t all_rows = 0;
  with_log<Word>(float_format(tensor.dtype), [&](auto log) {
    for (std::size_t r = 0; r < rows; ++r) {
      std::int64_t sum = 0;
      read(r, [&](const Word* words, std::size_t column, std::size_t n) {
        Word* const out = sums.data() + column;
        std::uint32_t part = 0;
        for (std::size_t j = 0; j < n; ++j) {
          const Word value = log(words[j]);
          out[j] = static_cast<Word>(out[j] + value);
          part += static_cast<std::uint32_t>(value);
        }
        sum += part;
      });
      means.rows.push_back(static_cast<std::int32_t>(mean(sum, static_cast<std::int64_t>(width))));
      all_rows += means.rows.back();
      if (r % kFlushRows != kFlushRows - 1 && r + 1 != rows) continue;
      for (std::size_t j = 0; j < width; ++j) totals[j] += static_cast<std::int64_t>(sums[j]);
      std::fill(sums.begin(), sums.end(), Word{0});
    }
  });
  means.columns.resize(width);
  for (std::size_t j = 0; j < width; ++j)
    means.columns[j] =
        static_cast<std::int32_t>(mean(totals[j] - all_rows, static_cast<std::int64_t>(rows)));
  return means;
}

/// Means of the elements that are not zero, of rows given the columns and the other way round.
template <typename Word>
class SparseFit {
 public:
  SparseFit(const TensorView& tensor, std::uint64_t columns)
      : tensor_(tensor),
        read_(tensor, columns),
        sums_(static_cast<std::size_t>(columns), 0),
        counts_(sums_.size(), 0) {
    means.rows.assign(static_cast<std::size_t>(row_count(tensor, columns)), 0);
    means.columns.assign(sums_.size(), 0);
  }

  GRADWIRE_CLONES void sweep() {
    std::vector<std::int64_t> totals(sums_.size(), 0);
    std::fill(counts_.begin(), counts_.end(), 0);
    with_log<Word>(float_format(tensor_.dtype), [&](auto log) {
      for (std::size_t r = 0; r < means.rows.size(); ++r) {
        fit_row(r, log);
        if (r % kFlushRows == kFlushRows - 1) flush(totals);
      }
    });
    flush(totals);
    for (std::size_t j = 0; j < totals.size(); ++j)
      means.columns[j] = static_cast<std::int32_t>(mean(totals[j], counts_[j]));
  }

  ScaleMeans means;

 private:
  static constexpr std::size_t kFlushRows = 16384;  ///< as many fit in 32 bits

  template <typename Log>
  void fit_row(std::size_t r, const Log& log) {
    std::int64_t sum = 0;
    std::int64_t count = 0;
    read_(r, [&](const Word* words, std::size_t column, std::size_t n) {
      const std::int32_t* column_means = means.columns.data() + column;
      std::int32_t part = 0;
      std::int32_t live = 0;
      for (std::size_t j = 0; j < n; ++j) {
        const std::int32_t coded = words[j] != 0 ? -1 : 0;
        part += (static_cast<std::int32_t>(log(words[j])) - column_means[j]) & coded;
        live -= coded;
      }
      sum += part;
      count += live;
    });
    const auto row = static_cast<std::int32_t>(mean(sum, count));
    means.rows[r] = row;
    read_(r, [&](const Word* words, std::size_t column, std::size_t n) {
      std::int32_t* sums = sums_.data() + column;
      std::int32_t* counts = counts_.data() + column;
      for (std::size_t j = 0; j < n; ++j) {
        const std::int32_t coded = words[j] != 0 ? -1 : 0;
        sums[j] += (static_cast<std::int32_t>(log(words[j])) - row) & coded;
        counts[j] -= coded;
      }
    });
  }

  void flush(std::vector<std::int64_t>& totals) {
    for (std::size_t j = 0; j < sums_.size(); ++j) {
      totals[j] += sums_[j];
      sums_[j] = 0;
    }
  }

  const TensorView& tensor_;
  RowReader<Word> read_;
  std::vector<std::int32_t> sums_, counts_;
};

}  // namespace

template <typename Word>
Sample<Word>::Sample(const TensorView& tensor, std::uint64_t zeros, std::uint64_t group) {
  const std::uint64_t elements = tensor.data.size() / sizeof(Word);
  const std::uint64_t live = std::max<std::uint64_t>(elements - zeros, 1);
  const std::uint64_t wanted =
      std::clamp(elements / kSampleShare, kLeastSample, kMostSample) * (elements / live);
  const std::uint64_t least =
      (std::min(wanted, kMostSampledElements) + kSampleRuns - 1) / kSampleRuns;
  const std::uint64_t n = (least + group - 1) / group * group;
  if (elements <= kSampleRuns * n) {
    runs.push_back({0, static_cast<std::size_t>(elements)});
  } else {
    for (std::uint64_t k = 0; k < kSampleRuns; ++k) {
      const std::uint64_t first = (elements - n) / group * k / (kSampleRuns - 1) * group;
      runs.push_back({first, static_cast<std::size_t>(n)});
    }
  }
  for (const Run& run : runs) {
    const std::size_t at = words.size();
    words.resize(at + run.n);
    std::memcpy(words.data() + at, tensor.data.data() + run.first * sizeof(Word),
                run.n * sizeof(Word));
  }
}

template <typename Word>
Survey survey_tensor(const TensorView& tensor) {
  Survey survey;
  const unsigned fraction = float_format(tensor.dtype).fraction_bits;
  Word used = 0;
  std::vector<Word> buffer;
  const std::uint64_t n = tensor.data.size() / sizeof(Word);
  for (std::uint64_t first = 0; first < n; first += kBlock) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(n - first, kBlock));
    const Word* words = load_words(tensor, first, count, buffer);
    Word zeros = 0;  // a block has too few elements to fill it
    for (std::size_t i = 0; i < count; ++i) {
      used |= words[i];
      zeros = static_cast<Word>(zeros + (words[i] == 0));
    }
    survey.zeros += zeros;
  }
  used &= split::low_mask<Word>(fraction);
  survey.fraction_bits = used == 0 ? 0 : fraction - static_cast<unsigned>(std::countr_zero(used));
  return survey;
}

template <typename Word>
std::array<std::uint64_t, 65> count_significant(const Sample<Word>& sample, DType dtype) {
  std::array<std::uint64_t, 65> significant{};
  const unsigned fraction = float_format(dtype).fraction_bits;
  const Word mask = split::low_mask<Word>(fraction);
  for (const Word word : sample.words) {
    if (word == 0) continue;
    const Word f = word & mask;
    ++significant[f == 0 ? 0 : fraction - static_cast<unsigned>(std::countr_zero(f))];
  }
  return significant;
}

template <typename Word>
void find_dead_lines(const TensorView& tensor, std::uint64_t columns, predict::Grid& grid) {
  const std::uint64_t rows = row_count(tensor, columns);
  if (rows < 2 || rows + columns > side_limit(rows * columns)) return;
  grid.row_dead.assign(static_cast<std::size_t>(rows), 0);
  std::vector<std::uint8_t> column_live(static_cast<std::size_t>(columns), 0);
  RowReader<Word> read(tensor, columns);
  for (std::uint64_t r = 0; r < rows; ++r) {
    unsigned any = 0;
    read(r, [&](const Word* words, std::size_t column, std::size_t n) {
      for (std::size_t j = 0; j < n; ++j) {
        const auto live = static_cast<std::uint8_t>(words[j] != 0);
        column_live[column + j] |= live;
        any |= live;
      }
    });
    grid.row_dead[static_cast<std::size_t>(r)] = any == 0;
  }
  grid.column_dead.resize(column_live.size());
  std::transform(column_live.begin(), column_live.end(), grid.column_dead.begin(),
                 [](std::uint8_t live) { return live ^ 1; });
  keep_if_worth(grid.row_dead, columns);
  keep_if_worth(grid.column_dead, rows);
}

template <typename Word>
ScaleMeans fit_scales(const TensorView& tensor, std::uint64_t columns, std::uint64_t zeros) {
  if (zeros == 0) return fit_dense<Word>(tensor, columns);
  constexpr std::uint64_t kFew = 16;  // a tensor with fewer is all but balanced after one sweep
  const bool few = zeros <= tensor.data.size() / sizeof(Word) / kFew;
  SparseFit<Word> fit(tensor, columns);
  for (int k = 0; k < (few ? 1 : 3); ++k) fit.sweep();
  return std::move(fit.means);
}

void quantise_scales(const ScaleMeans& means, unsigned units_log2, predict::Grid& grid) {
  const auto quantise = [&](const std::vector<std::int32_t>& values,
                            std::vector<std::int16_t>& scales) {
    scales.resize(values.size());
    std::transform(values.begin(), values.end(), scales.begin(), [&](std::int32_t value) {
      return static_cast<std::int16_t>(rounded_shift(value, units_log2));
    });
  };
  quantise(means.rows, grid.row_scales);
  quantise(means.columns, grid.column_scales);
}

#define GRADWIRE_SURVEY(Word)                                                            \
  template struct Sample<Word>;                                                          \
  template Survey survey_tensor<Word>(const TensorView&);                                \
  template std::array<std::uint64_t, 65> count_significant(const Sample<Word>&, DType);  \
  template void find_dead_lines<Word>(const TensorView&, std::uint64_t, predict::Grid&); \
  template ScaleMeans fit_scales<Word>(const TensorView&, std::uint64_t, std::uint64_t);

GRADWIRE_SURVEY(std::uint16_t)
GRADWIRE_SURVEY(std::uint32_t)
GRADWIRE_SURVEY(std::uint64_t)
#undef GRADWIRE_SURVEY

}  // namespace gradwire::lossless
