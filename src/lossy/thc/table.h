// The table of integers that THC rounds to.
// In: bits of an index, the largest entry, the probability of being clipped.
// Out: 2^bits ascending integers from 0 to the largest, of least error.
// Assumes: values that are distributed as N(0, 1), which a rotation gives.
// Source: Li et al. 2024, Tensor homomorphic compression (THC). The same table on every CPU.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gradwire::lossy {

/// Sums of entries over ranks are at most this: top * ranks.
inline constexpr std::uint32_t kMostSum = (1u << 30) - 1;

struct TableOptions {
  unsigned bits = 4;           ///< of an index, 1 to 8
  unsigned top = 31;           ///< the largest entry, 2^bits - 1 (levels of equal distance) to 255
  double clipped = 1.0 / 256;  ///< of N(0, 1), 1e-6 to 0.5: values beyond the limit go to it
  bool symmetric = true;       ///< entry j + entry 2^bits - 1 - j = top
};

/// Entry T stands for (2 T / top - 1) limit.
struct Table {
  unsigned bits;
  unsigned top;
  double limit;
  std::vector<std::uint8_t> entries;
};

/// The table of least rounding_error among all of these options, found by dynamic programming.
/// Throws invalid_argument and names the option.
Table optimal_table(const TableOptions& options);

/// The mean of the squared error of z, distributed as N(0, 1) and clipped to -limit .. limit, when
/// it goes to one of the two entries around it, with the probabilities that make the mean right.
/// `entries`: ascending, from 0 to `top`.
double rounding_error(std::span<const std::uint8_t> entries, unsigned top, double limit) noexcept;

/// The mean of the squared distance of z to -limit .. limit.
double clipping_error(double limit) noexcept;

}  // namespace gradwire::lossy
