// Tables given by two to four bytes: residuals of a generalised normal variable, of a mixture of
// two, or of one about a mean (docs/format.md 4.6, 10).
// In: the bytes' values, or a histogram.
// Out: integer weights, the same on every CPU; or the fit.
// Assumes: nothing of the bytes; not all of their values are tables.
// Source: Nadarajah 2005, A generalized normal distribution; as a model of gradients, Fu et al.
// 2020.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace gradwire::entropy {

/// What a table of source gennorm has on the wire; `more` is 0 where it has no such field.
struct GennormParameters {
  std::uint8_t shape = 0;
  std::uint8_t scale = 0;
  std::uint16_t more = 0;
};

/// Bytes of `more` behind a shape byte: 0, 1 (a mean), 2 (the second part of a mixture).
constexpr unsigned gennorm_more_bytes(std::uint8_t shape) {
  return shape >> 7 == 0 ? 0 : (shape >> 4 & 1) != 0 ? 1 : 2;
}

/// How an alphabet of S V + 2 symbols is made up: V residuals in steps of 2^-step_log2 octaves,
/// each with S = 2 symbols when the sign's flip is part of them; then zero and escape.
struct GennormLayout {
  unsigned step_log2 = 0;
  bool flips = false;
};

/// Fills `weights`, one a symbol, all at least 1. False when these parameters are no table for an
/// alphabet of this size.
bool gennorm_weights(const GennormParameters& parameters, std::span<std::uint64_t> weights);

/// The two bytes whose ideal code for these counts is the shortest; none when no gennorm table has
/// an alphabet of their size.
std::optional<GennormParameters> fit_gennorm(std::span<const std::uint32_t> counts,
                                             GennormLayout layout);

/// The best that was found with a mixture, or with a mean where there are flips; none when `plain`,
/// the fit of two bytes, is so near the counts' entropy that more bytes are not worth a search.
std::optional<GennormParameters> fit_gennorm_more(std::span<const std::uint32_t> counts,
                                                  const GennormParameters& plain);

/// The parameters that differ from these by one step of one field.
std::vector<GennormParameters> gennorm_neighbours(const GennormParameters& parameters);

/// The exponent beta that a shape byte stands for: 1 is Laplace, 2 is normal.
double gennorm_shape(std::uint8_t shape);

}  // namespace gradwire::entropy
