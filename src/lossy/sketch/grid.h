// Floats to integers on a grid that ranks agreed on, so that sums are exact on it.
// In: f32 values; the largest magnitude over all ranks; the largest integer that may be used.
// Out: integers, to be summed; then floats of their sum, or of a rank's own for error feedback.
// Assumes: the default rounding, to the nearest. A NaN or an infinity is reported, never spread.
//
// The steps of ranks: measure_magnitude -> the maximum over ranks (i64_max) -> grid_for ->
// to_grid. As what is not finite has the largest "magnitude", all ranks learn of it alike. The
// step of a grid is a power of two: every product with it is exact, and what an integer of up to
// 24 bits stands for is a float. The rounding error is the caller's to keep (feedback).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace gradwire::lossy {

/// Integers of 24 bits are floats, and so is what they stand for.
inline constexpr std::uint32_t kMostOnGrid = 1u << 24;

struct IntegerGrid {
  int exponent = 0;          ///< the step is 2^exponent
  std::int32_t largest = 0;  ///< magnitude of an integer, 1 to kMostOnGrid

  bool operator==(const IntegerGrid&) const = default;
};

/// The bits of the largest magnitude, which are ordered as magnitudes are; 0 for no values.
std::int64_t measure_magnitude(std::span<const float> values) noexcept;

/// The finest grid on which `magnitude` (of measure_magnitude, the maximum over ranks) is at most
/// `most` steps, but with a step and a largest value that are floats. Nothing if it is that of a
/// NaN or an infinity. Throws invalid_argument if `most` is 0 or over kMostOnGrid, or `magnitude`
/// is no magnitude.
std::optional<IntegerGrid> grid_for(std::int64_t magnitude, std::uint32_t most);

/// The nearest integers, ties to even; `integers` has one place a value. A magnitude over the
/// grid's is clipped to its largest. False if a value is NaN or infinite: then all are 0. Throws
/// invalid_argument if the sizes differ or the grid is none that grid_for can give.
[[nodiscard]] bool to_grid(std::span<const float> values, const IntegerGrid& grid,
                           std::span<std::int32_t> integers);

/// What integers stand for, divided by `divisor` (the number of ranks for a mean, 1 for a rank's
/// own or a sum). Exact for up to 24 bits and a divisor that is a power of two, subnormal results
/// excepted; otherwise rounded from double. False if a result is larger than floats are: it
/// becomes the largest. Throws as to_grid does, and if the divisor is 0.
[[nodiscard]] bool from_grid(std::span<const std::int32_t> integers, const IntegerGrid& grid,
                             std::uint32_t divisor, std::span<float> values);

}  // namespace gradwire::lossy
