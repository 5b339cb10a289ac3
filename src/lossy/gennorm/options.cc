// What follows from the options alone.
#include <cmath>

#include "base/fail.h"
#include "lossy/gennorm/distribution.h"
#include "lossy/gennorm/gennorm.h"

namespace gradwire::lossy {

void check_options(const GennormOptions& options) {
  constexpr auto kInvalid = ErrorKind::invalid_argument;
  if (options.grid > Grid::float_bits)
    fail(kInvalid, "gennorm: grid {} is none of the grids", static_cast<int>(options.grid));
  if (options.bias > FloatBias::least_error)
    fail(kInvalid, "gennorm: bias {} is none of the rules", static_cast<int>(options.bias));
  if (options.grid == Grid::float_bits) {
    const unsigned most = 7;
    if (options.exponent_bits < 1 || options.exponent_bits > most)
      fail(kInvalid, "gennorm: exponent_bits must be 1 to 7, not {}", options.exponent_bits);
    if (options.fraction_bits > most - options.exponent_bits)
      fail(kInvalid, "gennorm: fraction_bits must be at most {} with {} exponent bits, not {}",
           most - options.exponent_bits, options.exponent_bits, options.fraction_bits);
    return;
  }
  if (options.levels < 2 || options.levels > kMostLevels)
    fail(kInvalid, "gennorm: levels must be 2 to {}, not {}", kMostLevels, options.levels);
  if (options.grid == Grid::lloyd && options.weight_power > kMostWeightPower)
    fail(kInvalid, "gennorm: weight_power must be 0 to {}, not {}", kMostWeightPower,
         options.weight_power);
  if (options.grid == Grid::uniform && !(options.step >= 1e-6F && options.step <= 1e6F))
    fail(kInvalid, "gennorm: step must be 1e-6 to 1e6 root mean squares, not {}", options.step);
}

void check_model(const GennormModel& model) {
  constexpr auto kCorrupt = ErrorKind::corrupt;
  for (const unsigned row : {model.level_row, model.code_row})
    if (row >= kBetaRows)
      fail(kCorrupt, "gennorm: beta row {} found, the largest is {}", row, kBetaRows - 1);
  if (!(model.spread > 0 && std::isfinite(model.spread)))
    fail(kCorrupt, "gennorm: spread is {}; it must be finite and above 0", model.spread);
}

unsigned alphabet(const GennormOptions& options) noexcept {
  if (options.grid != Grid::float_bits) return options.levels;
  return (2u << (options.exponent_bits + options.fraction_bits)) - 1;
}

std::shared_ptr<const Levels> levels_of(const GennormOptions& options, unsigned beta_row) {
  if (beta_row >= kBetaRows)
    fail(ErrorKind::corrupt, "gennorm: beta row {} found, the largest is {}", beta_row,
         kBetaRows - 1);
  switch (options.grid) {
    case Grid::uniform:
      return std::make_shared<const Levels>(uniform_levels(options.levels, double{options.step}));
    case Grid::float_bits:
      return std::make_shared<const Levels>(
          float_levels(options.exponent_bits, options.fraction_bits));
    default:
      return lloyd_levels(beta_row, options.levels, options.weight_power);
  }
}

}  // namespace gradwire::lossy
