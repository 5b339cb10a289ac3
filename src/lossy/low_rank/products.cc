#include "lossy/low_rank/products.h"

#include <algorithm>
#include <cstring>

#include "base/clones.h"
#include "base/unroll.h"

namespace gradwire::lossy {
namespace {

constexpr std::size_t kLanes = 8;
/// Columns of the matrix at a time: with four columns of a factor they fit the first cache.
constexpr std::size_t kPieceColumns = 1024;
/// Columns of a factor at a time, with two rows of the matrix where every row has sums of its own,
/// four where rows are added up: what is summed fits the registers.
constexpr std::size_t kGroup = 4;
constexpr std::size_t kPair = 2;
constexpr std::size_t kRows = 4;

using Lanes [[gnu::vector_size(kLanes * sizeof(float))]] = float;

/// sums[i][c] += kLanes products of row i and column c.
template <std::size_t kCount, std::size_t kGroupRows>
inline void add_products(const Lanes (&row)[kGroupRows], const Lanes (&factor)[kCount],
                         Lanes (&sums)[kGroupRows][kCount]) noexcept {
  GRADWIRE_UNROLL
  for (std::size_t i = 0; i < kGroupRows; ++i) {
    GRADWIRE_UNROLL
    for (std::size_t c = 0; c < kCount; ++c) sums[i][c] += row[i] * factor[c];
  }
}

/// Up to kLanes values of each of kCount runs, the rest zero.
template <std::size_t kCount>
inline void load_end(const float* values, std::size_t stride, std::size_t n,
                     Lanes (&out)[kCount]) noexcept {
  for (std::size_t k = 0; k < kCount; ++k) {
    float padded[kLanes] = {};
    for (std::size_t lane = 0; lane < n; ++lane) padded[lane] = values[k * stride + lane];
    std::memcpy(&out[k], padded, sizeof(Lanes));
  }
}

template <std::size_t kCount>
inline void load_lanes(const float* values, std::size_t stride, Lanes (&out)[kCount]) noexcept {
  GRADWIRE_UNROLL
  for (std::size_t k = 0; k < kCount; ++k) std::memcpy(&out[k], values + k * stride, sizeof(Lanes));
}

/// left[c][i] += row i of the matrix times column c of the factor, over n columns of the matrix.
template <std::size_t kCount, std::size_t kGroupRows>
inline void add_dots(const float* matrix, MatrixView view, std::size_t n, const float* right,
                     float* left) noexcept {
  Lanes sums[kGroupRows][kCount] = {};
  Lanes row[kGroupRows];
  Lanes factor[kCount];
  const std::size_t whole = n - n % kLanes;
  for (std::size_t j = 0; j < whole; j += kLanes) {
    load_lanes(matrix + j, view.columns, row);
    load_lanes(right + j, view.columns, factor);
    add_products(row, factor, sums);
  }
  if (whole < n) {
    load_end(matrix + whole, view.columns, n - whole, row);
    load_end(right + whole, view.columns, n - whole, factor);
    add_products(row, factor, sums);
  }
  GRADWIRE_UNROLL
  for (std::size_t i = 0; i < kGroupRows; ++i) {
    GRADWIRE_UNROLL
    for (std::size_t c = 0; c < kCount; ++c) {
      const Lanes s = sums[i][c];
      left[c * view.rows + i] += ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
    }
  }
}

/// right[c][j] += the sum over kRows rows of rows[i][j] weights[c][i], for n columns.
template <std::size_t kCount>
inline void add_rows(const float* const (&rows)[kRows], MatrixView view, std::size_t n,
                     const float (&weights)[kCount][kRows], float* right) noexcept {
  const std::size_t whole = n - n % kLanes;
  for (std::size_t j = 0; j < whole; j += kLanes) {
    Lanes row[kRows];
    GRADWIRE_UNROLL
    for (std::size_t i = 0; i < kRows; ++i) std::memcpy(&row[i], rows[i] + j, sizeof(Lanes));
    GRADWIRE_UNROLL
    for (std::size_t c = 0; c < kCount; ++c) {
      const float (&w)[kRows] = weights[c];
      Lanes sum;
      std::memcpy(&sum, right + c * view.columns + j, sizeof(Lanes));
      sum += (row[0] * w[0] + row[1] * w[1]) + (row[2] * w[2] + row[3] * w[3]);
      std::memcpy(right + c * view.columns + j, &sum, sizeof(Lanes));
    }
  }
  for (std::size_t j = whole; j < n; ++j)
    for (std::size_t c = 0; c < kCount; ++c) {
      const float (&w)[kRows] = weights[c];
      right[c * view.columns + j] +=
          (rows[0][j] * w[0] + rows[1][j] * w[1]) + (rows[2][j] * w[2] + rows[3][j] * w[3]);
    }
}

/// right[c][j] += the sum over rows i .. i + kRows - 1 of matrix[i][j] left[c][i]. A row past the
/// last is the last again, of weight 0.
template <std::size_t kCount>
inline void add_weighted(const float* matrix, MatrixView view, std::size_t i, std::size_t n,
                         const float* left, float* right) noexcept {
  const float* rows[kRows];
  float weights[kCount][kRows] = {};
  for (std::size_t k = 0; k < kRows; ++k) {
    rows[k] = matrix + std::min(i + k, view.rows - 1) * view.columns;
    for (std::size_t c = 0; c < kCount && i + k < view.rows; ++c)
      weights[c][k] = left[c * view.rows + i + k];
  }
  add_rows<kCount>(rows, view, n, weights, right);
}

/// Calls each<count>(first) for the columns of a factor, up to kGroup at a time.
template <typename Each>
inline void in_groups(std::size_t matrix_rank, const Each& each) noexcept {
  std::size_t first = 0;
  for (; first + kGroup <= matrix_rank; first += kGroup) each.template operator()<kGroup>(first);
  switch (matrix_rank - first) {
    case 3:
      return each.template operator()<3>(first);
    case 2:
      return each.template operator()<2>(first);
    case 1:
      return each.template operator()<1>(first);
  }
}

GRADWIRE_CLONES void dots(const float* matrix, MatrixView view, std::size_t matrix_rank,
                          const float* right, float* left) noexcept {
  for (std::size_t at = 0; at < view.columns; at += kPieceColumns) {
    const std::size_t n = std::min(kPieceColumns, view.columns - at);
    for (std::size_t i = 0; i < view.rows; i += kPair) {
      const float* rows = matrix + i * view.columns + at;
      const bool is_last = i + kPair > view.rows;
      in_groups(matrix_rank, [&]<std::size_t kCount>(std::size_t c) {
        const float* factor = right + c * view.columns + at;
        float* out = left + c * view.rows + i;
        is_last ? add_dots<kCount, 1>(rows, view, n, factor, out)
                : add_dots<kCount, kPair>(rows, view, n, factor, out);
      });
    }
  }
}

GRADWIRE_CLONES void weighted_rows(const float* matrix, MatrixView view, std::size_t matrix_rank,
                                   const float* left, float* right) noexcept {
  for (std::size_t at = 0; at < view.columns; at += kPieceColumns) {
    const std::size_t n = std::min(kPieceColumns, view.columns - at);
    for (std::size_t i = 0; i < view.rows; i += kRows)
      in_groups(matrix_rank, [&]<std::size_t kCount>(std::size_t c) {
        add_weighted<kCount>(matrix + at, view, i, n, left + c * view.rows,
                             right + c * view.columns + at);
      });
  }
}

/// out[i][j] += the sum over kCount columns of left[c][i] right[c][j], for kGroupRows rows and n
/// columns. With kFirst it sets instead.
template <std::size_t kCount, std::size_t kGroupRows, bool kFirst>
inline void add_outer(const float* left, const float* right, MatrixView view, std::size_t n,
                      float* out) noexcept {
  float weights[kGroupRows][kCount];
  for (std::size_t i = 0; i < kGroupRows; ++i)
    for (std::size_t c = 0; c < kCount; ++c) weights[i][c] = left[c * view.rows + i];
  const std::size_t whole = n - n % kLanes;
  for (std::size_t j = 0; j < whole; j += kLanes) {
    Lanes factor[kCount];
    load_lanes(right + j, view.columns, factor);
    GRADWIRE_UNROLL
    for (std::size_t i = 0; i < kGroupRows; ++i) {
      float* place = out + i * view.columns + j;
      Lanes sum = {};
      if constexpr (!kFirst) std::memcpy(&sum, place, sizeof(Lanes));
      GRADWIRE_UNROLL
      for (std::size_t c = 0; c < kCount; ++c) sum += factor[c] * weights[i][c];
      std::memcpy(place, &sum, sizeof(Lanes));
    }
  }
  for (std::size_t i = 0; i < kGroupRows; ++i)
    for (std::size_t j = whole; j < n; ++j) {
      float& place = out[i * view.columns + j];
      float sum = kFirst ? 0 : place;
      for (std::size_t c = 0; c < kCount; ++c) sum += right[c * view.columns + j] * weights[i][c];
      place = sum;
    }
}

GRADWIRE_CLONES void expand_all(const float* left, const float* right, MatrixView view,
                                std::size_t matrix_rank, float* out) noexcept {
  for (std::size_t at = 0; at < view.columns; at += kPieceColumns) {
    const std::size_t n = std::min(kPieceColumns, view.columns - at);
    for (std::size_t i = 0; i < view.rows; i += kPair) {
      const bool is_last = i + kPair > view.rows;
      float* rows = out + i * view.columns + at;
      in_groups(matrix_rank, [&]<std::size_t kCount>(std::size_t c) {
        const float* weights = left + c * view.rows + i;
        const float* factor = right + c * view.columns + at;
        if (is_last)
          c == 0 ? add_outer<kCount, 1, true>(weights, factor, view, n, rows)
                 : add_outer<kCount, 1, false>(weights, factor, view, n, rows);
        else
          c == 0 ? add_outer<kCount, kPair, true>(weights, factor, view, n, rows)
                 : add_outer<kCount, kPair, false>(weights, factor, view, n, rows);
      });
    }
  }
}

}  // namespace

void multiply(const float* matrix, MatrixView view, std::size_t matrix_rank, const float* right,
              float* left) noexcept {
  std::fill_n(left, matrix_rank * view.rows, 0.0F);
  dots(matrix, view, matrix_rank, right, left);
}

void multiply_transposed(const float* matrix, MatrixView view, std::size_t matrix_rank,
                         const float* left, float* right) noexcept {
  std::fill_n(right, matrix_rank * view.columns, 0.0F);
  weighted_rows(matrix, view, matrix_rank, left, right);
}

void expand(const float* left, const float* right, MatrixView view, std::size_t matrix_rank,
            float* out) noexcept {
  expand_all(left, right, view, matrix_rank, out);
}

}  // namespace gradwire::lossy
