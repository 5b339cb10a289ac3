// Dead rows and columns, scales and signs of a tensor (docs/format.md 3.2 to 3.4).
// In: the grid and its sections.
// Out: section payloads, or a grid that covers the view.
// Assumes: the header has been checked; the payloads are untrusted.
#pragma once

#include "frame/tensor_body.h"
#include "stages/predict/scaled.h"

namespace gradwire::lossless {

/// Largest rows + columns that side information may have for n elements.
constexpr std::uint64_t side_limit(std::uint64_t elements) noexcept { return elements / 4 + 65536; }

predict::Grid read_grid(const frame::TensorBody& body);

/// Empty when nothing is dead.
Bytes write_dead(const predict::Grid& grid);
Bytes write_scales(const predict::Grid& grid);
Bytes write_signs(const predict::Grid& grid);

/// mask[i] = 1 where element first + i is live. Returns the number of live elements; writes nothing
/// and returns n when the grid has no dead lines.
std::size_t live_mask(const predict::Grid& grid, const ScaledParameters& parameters,
                      std::uint64_t first, std::size_t n, std::uint8_t* mask);
bool has_dead(const predict::Grid& grid) noexcept;

}  // namespace gradwire::lossless
