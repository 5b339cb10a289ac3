// Values to symbols of one byte: levels fitted to a generalised normal distribution, or a float
// type of a few bits; and the probabilities of the symbols, so that no table need be sent.
// In: f32 values and options; or what a rank sent.
// Out: symbols, scales and a model; or the values that they stand for.
// Assumes: nothing of the values: a NaN or an infinity is reported, not quantised. Options have
// passed check_options.
// Finite values give finite ones back. Symbols ascend with the value: of n levels, symbol n / 2 is
// zero if n is odd; with an even n zeros go to the least positive level. All choices go to the
// nearest, so this is biased: it belongs behind error feedback. The same bits on every CPU.
// Source: Chen et al. 2021, DNN gradient lossless compression: can GenNorm be the answer?;
// Chen et al. 2022, Convert, compress, correct (CO3); the weighted levels: codebook.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lossy/gennorm/codebook.h"

namespace gradwire::lossy {

enum class Grid : std::uint8_t {
  lloyd,       ///< the levels of least (weighted) error under the fitted distribution
  uniform,     ///< levels of equal distance; a value in the middle goes to the larger magnitude
  float_bits,  ///< sign, exponent, fraction, and a fitted exponent bias; ties to even
};

/// How float_bits fits its bias.
enum class FloatBias : std::uint8_t {
  largest,      ///< so that the largest magnitude of the bucket is not clipped
  least_error,  ///< lower while that lessens the mean square error of the bucket
};

struct GennormOptions {
  Grid grid = Grid::lloyd;
  unsigned levels = 15;        ///< lloyd, uniform: 2 to 255
  unsigned weight_power = 0;   ///< lloyd: M of the error |x|^M (x - y)^2, 0 to 8
  float step = 0.25F;          ///< uniform: distance of levels, in root mean squares
  unsigned exponent_bits = 3;  ///< float_bits: 1 to 7
  unsigned fraction_bits = 2;  ///< float_bits: exponent_bits + fraction_bits is at most 7
  FloatBias bias = FloatBias::least_error;
  std::size_t bucket_values = 0;  ///< values that share a scale; 0: all
};

/// What a receiver needs for levels and code: the distribution of what is not zero, and how much
/// is. Fitted to all buckets together, each in units of its scale.
struct GennormModel {
  std::uint8_t level_row = 64;  ///< beta = 2^(row / 16 - 3) by the moments: makes lloyd's levels
  std::uint8_t code_row = 64;   ///< the same for the code, of which refine_model makes another
  std::uint16_t zeros = 0;      ///< share of zeros, in 65535ths
  std::uint8_t minus = 128;     ///< for the code: share of negative ones of the others, in 256ths
  float spread = 1;             ///< for the code: root mean square of the others, in scales
};

struct GennormSymbols {
  std::vector<std::uint8_t> symbols;
  std::vector<float> scales;  ///< one a bucket: the root mean square of what is not zero, or
                              ///< float_bits' least number, a power of two; 0: all are zeros
  GennormModel model;
};

/// Throws invalid_argument and names the option.
void check_options(const GennormOptions& options);

/// Throws corrupt if no sender makes this model.
void check_model(const GennormModel& model);

/// Levels that symbols stand for, in units of the scale. Throws corrupt for a row that is none.
std::shared_ptr<const Levels> levels_of(const GennormOptions& options, unsigned beta_row);

/// Symbols are below this number, 255 at most.
unsigned alphabet(const GennormOptions& options) noexcept;

/// Fits and quantises. False if a value is NaN or infinite: then `out` is empty. `out` keeps its
/// memory between calls. A few values fit badly: below some 100 the error may be well above what
/// many values of the same distribution have.
[[nodiscard]] bool quantise(std::span<const float> values, const GennormOptions& options,
                            GennormSymbols& out);

/// The values. `out` has one place a symbol. Throws corrupt if sizes, scales, model or symbols are
/// not what the options allow.
void dequantise(const GennormSymbols& quantised, const GennormOptions& options,
                std::span<float> out);

}  // namespace gradwire::lossy
