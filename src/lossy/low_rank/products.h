// Products of a matrix and a factor of few columns, and back.
// In: a matrix, row after row; factors, column after column: the left one has `rows` values a
// column, the right one `columns`.
// Out: a factor, or the matrix that two factors stand for.
// Assumes: outputs do not overlap inputs. A product with a matrix reads it once from memory. Sums
// have one order, whatever the CPU: eight side by side along a row, one after the other down a
// column.
#pragma once

#include <cstddef>

namespace gradwire::lossy {

struct MatrixView {
  std::size_t rows;
  std::size_t columns;
  constexpr std::size_t size() const noexcept { return rows * columns; }
};

/// left = M right, `matrix_rank` columns. A NaN or an infinity in row i of M makes value i of every
/// column NaN or infinite.
void multiply(const float* matrix, MatrixView view, std::size_t matrix_rank, const float* right,
              float* left) noexcept;

/// right = M^T left. The same for the columns of M.
void multiply_transposed(const float* matrix, MatrixView view, std::size_t matrix_rank,
                         const float* left, float* right) noexcept;

/// out = left right^T.
void expand(const float* left, const float* right, MatrixView view, std::size_t matrix_rank,
            float* out) noexcept;

}  // namespace gradwire::lossy
