// Products with thin factors, and orthonormal columns, against sums in double.

#include <bit>
#include <limits>

#include "low_rank_testing.h"

namespace gradwire::lossy {
namespace {

/// Sides around what the loops take at a time: 8, 2 or 4 rows, 1024 columns.
const MatrixView kViews[] = {{1, 1},    {1, 9},    {9, 1},  {2, 8},    {3, 7},
                             {4, 16},   {5, 17},   {7, 31}, {3, 1023}, {2, 1024},
                             {6, 1025}, {5, 2100}, {64, 9}, {1000, 3}};

/// Sum of a_k b_k over `n` terms, and its bound of the error: every product and sum of n terms is
/// rounded n times at most (Higham 2002, section 3.1).
struct NaiveSum {
  double sum = 0;
  double magnitudes = 0;
  void add(float a, float b) {
    sum += double{a} * double{b};
    magnitudes += std::fabs(double{a} * double{b});
  }
  double tolerance(std::size_t n) const { return static_cast<double>(n) * kUnit * magnitudes; }
};

struct Operands {
  MatrixView view;
  std::size_t matrix_rank;
  Values matrix = some_values(view.size(), 1);
  Values left = some_values(matrix_rank * view.rows, 2);
  Values right = some_values(matrix_rank * view.columns, 3);
};

void expect_products(const Operands& x) {
  const auto [rows, columns] = x.view;
  Values left(x.left.size() + 1, 7);
  Values right(x.right.size() + 1, 7);
  Values out(x.view.size() + 1, 7);
  multiply(x.matrix.data(), x.view, x.matrix_rank, x.right.data(), left.data());
  multiply_transposed(x.matrix.data(), x.view, x.matrix_rank, x.left.data(), right.data());
  expand(x.left.data(), x.right.data(), x.view, x.matrix_rank, out.data());
  for (std::size_t c = 0; c < x.matrix_rank; ++c) {
    for (std::size_t i = 0; i < rows; ++i) {
      NaiveSum sum;
      for (std::size_t j = 0; j < columns; ++j)
        sum.add(x.matrix[i * columns + j], x.right[c * columns + j]);
      ASSERT_NEAR(double{left[c * rows + i]}, sum.sum, sum.tolerance(columns + 1));
    }
    for (std::size_t j = 0; j < columns; ++j) {
      NaiveSum sum;
      for (std::size_t i = 0; i < rows; ++i)
        sum.add(x.matrix[i * columns + j], x.left[c * rows + i]);
      ASSERT_NEAR(double{right[c * columns + j]}, sum.sum, sum.tolerance(rows + 1));
    }
  }
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) {
      NaiveSum sum;
      for (std::size_t c = 0; c < x.matrix_rank; ++c)
        sum.add(x.left[c * rows + i], x.right[c * columns + j]);
      ASSERT_NEAR(double{out[i * columns + j]}, sum.sum, sum.tolerance(x.matrix_rank + 1));
    }
  EXPECT_EQ(left.back() + right.back() + out.back(), 21) << "written past the end";
}

TEST(LowRankProducts, AreThoseOfSumsInDouble) {
  for (const MatrixView view : kViews)
    for (const std::size_t matrix_rank : {1, 2, 3, 4, 5, 7, 8, 13}) {
      SCOPED_TRACE(::testing::Message()
                   << view.rows << " x " << view.columns << ", " << matrix_rank);
      expect_products({view, matrix_rank});
    }
}

TEST(LowRankProducts, WorkedByHand) {
  const Values matrix{1, 2, 3, 4, 5, 6};  // 2 x 3
  Values left(4);
  multiply(matrix.data(), {2, 3}, 2, Values{1, 0, 1, 0, 2, 0}.data(), left.data());
  EXPECT_EQ(left, (Values{4, 10, 4, 10}));
  Values right(3);
  multiply_transposed(matrix.data(), {2, 3}, 1, Values{1, 2}.data(), right.data());
  EXPECT_EQ(right, (Values{9, 12, 15}));
  Values out(6);
  expand(Values{1, 2}.data(), right.data(), {2, 3}, 1, out.data());
  EXPECT_EQ(out, (Values{9, 12, 15, 18, 24, 30}));
}

/// Whatever the factor, zeros in it included.
TEST(LowRankProducts, WhatIsNotFiniteShowsInEveryColumn) {
  for (const MatrixView view : {MatrixView{5, 17}, MatrixView{6, 1025}, MatrixView{3, 7}})
    for (const float bad : {NAN, INFINITY, -INFINITY})
      for (const std::size_t at : {std::size_t{0}, view.size() / 2, view.size() - 1}) {
        Values matrix = some_values(view.size(), 1);
        matrix[at] = bad;
        Values left(3 * view.rows);
        Values right(3 * view.columns);
        const Values zeros(3 * std::max(view.rows, view.columns));
        multiply(matrix.data(), view, 3, zeros.data(), left.data());
        multiply_transposed(matrix.data(), view, 3, zeros.data(), right.data());
        for (std::size_t c = 0; c < 3; ++c) {
          EXPECT_FALSE(std::isfinite(left[c * view.rows + at / view.columns]));
          EXPECT_FALSE(std::isfinite(right[c * view.columns + at % view.columns]));
        }
      }
}

/// Columns of length 1 and at right angles. They are rounded to f32 at the end, each value by
/// kUnit of itself, so that a product of two is off by 2 kUnit at most; the rest is of doubles.
void expect_orthonormal(const Values& columns, std::size_t n) {
  for (std::size_t a = 0; a * n < columns.size(); ++a)
    for (std::size_t b = 0; b <= a; ++b) {
      double product = 0;
      for (std::size_t i = 0; i < n; ++i)
        product += double{columns[a * n + i]} * double{columns[b * n + i]};
      ASSERT_NEAR(product, a == b ? 1 : 0, 2.1 * kUnit) << a << ", " << b;
    }
}

Values orthonormal(Values columns, std::size_t n) {
  orthogonalise(columns, n, 5, 100);
  expect_orthonormal(columns, n);
  return columns;
}

TEST(Orthogonalise, GivesOrthonormalColumnsOfTheSameSpan) {
  for (const auto& [n, count] : {std::pair<std::size_t, std::size_t>{1, 1},
                                 {2, 2},
                                 {7, 3},
                                 {32, 32},
                                 {1000, 1},
                                 {1000, 32},
                                 {256, 256}}) {
    const Values given = some_values(n * count, n);
    const Values basis = orthonormal(given, n);
    for (std::size_t c = 0; c < count; ++c) {  // what the first c + 1 columns leave of column c
      Values rest(given.begin() + static_cast<std::ptrdiff_t>(c * n),
                  given.begin() + static_cast<std::ptrdiff_t>((c + 1) * n));
      const double whole = norm(rest);
      for (std::size_t k = 0; k <= c; ++k) {
        double share = 0;
        for (std::size_t i = 0; i < n; ++i) share += double{rest[i]} * double{basis[k * n + i]};
        for (std::size_t i = 0; i < n; ++i) rest[i] -= static_cast<float>(share) * basis[k * n + i];
      }
      // A subtraction rounds three times, of values that are no longer than the column.
      EXPECT_LT(norm(rest), 4 * kUnit * static_cast<double>(c + 1) * whole);
    }
  }
}

TEST(Orthogonalise, FillsWhatIsMissingWithDrawnColumns) {
  const std::size_t n = 20;
  const Values zeros = orthonormal(Values(5 * n), n);
  Values again(5 * n);
  orthogonalise(again, n, 5, 100);
  EXPECT_EQ(again, zeros) << "the same draws on every rank";
  orthogonalise(again = Values(5 * n), n, 5, 101);
  EXPECT_NE(again, zeros);
  orthogonalise(again = Values(5 * n), n, 6, 100);
  EXPECT_NE(again, zeros);
  const Values one = some_values(n, 1);
  Values equal;
  for (const float factor : {1.0F, -3.0F, 0.0F, 0x1p-100F, 1.0F})
    for (const float value : one) equal.push_back(factor * value);
  orthonormal(equal, n);
  Values square(n * n);  // of one direction, and no room: n drawn columns less one
  for (std::size_t i = 0; i < square.size(); ++i) square[i] = 1;
  orthonormal(square, n);
}

TEST(Orthogonalise, TakesValuesOfAnyMagnitude) {
  const std::size_t n = 50;
  for (const float scale :
       {std::numeric_limits<float>::denorm_min(), 0x1p-140F, 0x1p-60F, 0x1p60F, 0x1p119F}) {
    Values columns = some_values(4 * n, 9);
    for (float& value : columns) value = std::round(8 * value) * scale;
    orthonormal(columns, n);
  }
  Values mixed = some_values(4 * n, 9);
  for (std::size_t i = 0; i < mixed.size(); ++i) mixed[i] *= i / n % 2 == 0 ? 0x1p-120F : 0x1p100F;
  orthonormal(mixed, n);
}

/// With signs s_k, columns s_0, s_0 + 2^-18 s_1, s_1 + 2^-18 s_2, ...: each adds little to those
/// before it, so that the error of one pass, magnified 2^18 times a column, shows from the third
/// on.
TEST(Orthogonalise, TakesColumnsThatAddLittle) {
  const std::size_t n = 64;
  Values signs = some_values(6 * n, 3);
  for (float& sign : signs) sign = std::copysign(1.0F, sign);
  Values columns(signs.begin(), signs.begin() + n);
  for (std::size_t i = 0; i < 5 * n; ++i) columns.push_back(signs[i] + 0x1p-18F * signs[i + n]);
  orthonormal(columns, n);
}

}  // namespace
}  // namespace gradwire::lossy
