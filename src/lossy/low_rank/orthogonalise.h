// Orthonormal columns that span what given ones span.
// In: a factor, column after column, finite; random numbers for what is missing.
// Out: the factor, its columns orthonormal to within some roundings of f32.
// Assumes: no more columns than values in one. Modified Gram-Schmidt, each column twice
// (Giraud, Langou 2002: twice is enough), in double and in one order: the same bits on every CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gradwire::lossy {

/// `count` columns of n uniform numbers in [-1, 1), a function of `seed`, `first` and the number of
/// the column: column c is draw first + c.
void draw_columns(std::uint64_t seed, std::uint64_t first, std::size_t n, std::span<float> columns);

/// In place; the first column keeps its direction, each later one what of it is new. A column that
/// is zero or adds less than 2^-20 of itself to those before it becomes a drawn one made
/// orthogonal to them, so that a matrix that was zero or of lower rank once does not leave later
/// steps without directions. (If even that adds nothing, which is one draw in 10^5 where n is the
/// number of columns and rarer elsewhere, the column becomes zero.)
void orthogonalise(std::span<float> columns, std::size_t n, std::uint64_t seed,
                   std::uint64_t first);

}  // namespace gradwire::lossy
