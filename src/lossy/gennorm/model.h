// Codes without tables: how likely each symbol is under a generalised normal distribution.
// In: levels and a model; or counts of symbols.
// Out: integer weights, the same on every CPU, for entropy/code_lengths.h; bits.
// Assumes: levels ascend and are symmetric.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lossy/gennorm/gennorm.h"

namespace gradwire::lossy {

inline constexpr std::uint64_t kModelTotal = 1u << 24;

/// A distribution of values in units of the levels' scale, and how many zeros there are besides.
struct ValueModel {
  double beta = 2;
  double spread = 1;   ///< root mean square of what is not zero
  double zeros = 0;    ///< share of exact zeros
  double minus = 0.5;  ///< share of negative ones of the others
};
/// Throws corrupt if no sender makes this model.
ValueModel value_model(const GennormModel& model);

/// Weights of the symbols, 1 to about kModelTotal, their sum kModelTotal and some 2 a level.
std::vector<std::uint64_t> symbol_weights(std::span<const float> levels, const ValueModel& model);

using Counts = std::vector<std::uint64_t>;
/// Symbols are below `alphabet`.
Counts count_symbols(std::span<const std::uint8_t> symbols, unsigned alphabet);

/// Bits a symbol by the counts' own shares: the least that any code of single symbols takes. 0 for
/// none.
double entropy_bits(std::span<const std::uint64_t> counts) noexcept;

/// Bits a symbol of an ideal code for these weights, none of which is 0.
double coded_bits(std::span<const std::uint64_t> counts,
                  std::span<const std::uint64_t> weights) noexcept;

/// Sets `minus` by the counts, and moves code_row, spread and zeros by a search to where they cost
/// less: what moments do not fit, such as values of several scales. Takes the time of some hundred
/// symbol_weights.
void refine_model(std::span<const float> levels, std::span<const std::uint64_t> counts,
                  GennormModel& model);

}  // namespace gradwire::lossy
