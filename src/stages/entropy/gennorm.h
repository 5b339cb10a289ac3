// Tables given by two bytes: residuals of a generalised normal variable (docs/format.md 4.6, 10).
// In: shape and scale bytes, or a histogram.
// Out: integer weights, the same on every CPU; or the fit.
// Assumes: nothing of the bytes; not all of their values are tables.
// Source: Nadarajah 2005, A generalized normal distribution; as a model of gradients, Fu et al.
// 2020.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace gradwire::entropy {

/// The two bytes of a table of source gennorm.
struct GennormParameters {
  std::uint8_t shape;
  std::uint8_t scale;
};

/// How an alphabet of S V + 2 symbols is made up: V residuals in steps of 2^-step_log2 octaves,
/// each with S = 2 symbols when the sign's flip is part of them; then zero and escape.
struct GennormLayout {
  unsigned step_log2 = 0;
  bool flips = false;
};

/// Fills `weights`, one a symbol, all at least 1. False when these bytes are no table for an
/// alphabet of this size.
bool gennorm_weights(std::uint8_t shape, std::uint8_t scale, std::span<std::uint64_t> weights);

/// The parameters whose ideal code for these counts is the shortest; none when no gennorm table has
/// an alphabet of their size.
std::optional<GennormParameters> fit_gennorm(std::span<const std::uint32_t> counts,
                                             GennormLayout layout);

/// The exponent beta that a shape byte stands for: 1 is Laplace, 2 is normal.
double gennorm_shape(std::uint8_t shape);

}  // namespace gradwire::entropy
