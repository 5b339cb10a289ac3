// Adding the ranks' values of a run of elements, bit for bit as a stated order says.
// In: one array of values a rank, where the run lies in the bucket.
// Out: the sum or mean.
// Assumes: arrays of equal length; a float dtype.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gradwire/exchange.h"

namespace gradwire::exchange {

/// What an addition needs beside the values.
struct AdditionRule {
  DType dtype = DType::f32;
  SumOrder order = SumOrder::rank;
  unsigned world = 1;  ///< ranks whose values are added
  bool mean = true;
  std::uint64_t bucket_elements = 0;  ///< order gloo: its chunks follow from the whole bucket
};

/// Elements of one chunk of Gloo's ring all-reduce: ceil(n / segments) as its segmentation gives
/// (research: PyTorch's Gloo, all lengths tried). The order of addition in chunk c starts at rank
/// c - 1 and goes down to rank c, modulo the ranks.
std::uint64_t gloo_chunk_elements(DType dtype, std::uint64_t n, unsigned world) noexcept;

/// out = values of all ranks (at least one) added, for the bucket's elements first .. first + n
/// - 1. `out` may be one of the arrays. With order rank it holds the sum: scale() makes the mean of
/// it. Values of one rank stay as they are. Of several NaNs the first in the order stays, made
/// quiet, so that all processors give the same bits.
void add_values(const AdditionRule& rule, std::uint64_t first,
                std::span<const std::uint8_t* const> values, std::size_t n, std::uint8_t* out);

/// The mean of a sum that travelled (order rank); nothing to do for other rules.
void scale(const AdditionRule& rule, std::uint8_t* values, std::size_t n);

}  // namespace gradwire::exchange
