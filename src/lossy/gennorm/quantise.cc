#include <algorithm>
#include <cmath>

#include "base/buckets.h"
#include "lossy/gennorm/gennorm.h"
#include "lossy/gennorm/loops.h"
#include "lossy/gennorm/scales.h"

namespace gradwire::lossy {
namespace {

/// Calls `use(scale, begin, n)` for every bucket that is not all zeros; the others get zero's
/// symbol.
template <typename Use>
void for_each_scale(const GennormOptions& options, GennormSymbols& out, const Use& use) {
  for_each_bucket(out.symbols.size(), options.bucket_values,
                  [&](std::size_t bucket, std::size_t begin, std::size_t n) {
                    const float scale = out.scales[bucket];
                    std::uint8_t* symbols = out.symbols.data() + begin;
                    if (scale > 0) return use(scale, begin, n, symbols);
                    std::fill_n(symbols, n, static_cast<std::uint8_t>(alphabet(options) / 2));
                  });
}

void quantise_to_nearest(std::span<const float> values, const GennormOptions& options,
                         GennormSymbols& out) {
  const NearestLevel nearest(*levels_of(options, out.model.level_row));
  for_each_scale(options, out,
                 [&](float scale, std::size_t begin, std::size_t n, std::uint8_t* symbols) {
                   nearest.quantise(values.data() + begin, n, scale, symbols);
                 });
}

void quantise_to_floats(std::span<const float> values, const GennormOptions& options,
                        GennormSymbols& out) {
  for_each_scale(
      options, out, [&](float scale, std::size_t begin, std::size_t n, std::uint8_t* symbols) {
        const FloatType type{options.exponent_bits, options.fraction_bits, std::ilogb(scale)};
        to_float_levels(values.data() + begin, n, type, symbols);
      });
}

}  // namespace

bool quantise(std::span<const float> values, const GennormOptions& options, GennormSymbols& out) {
  check_options(options);
  out.symbols.clear();
  out.scales.clear();
  out.model = {};
  if (!fit(values, options, out.scales, out.model)) return false;
  out.symbols.resize(values.size());
  if (options.grid == Grid::float_bits)
    quantise_to_floats(values, options, out);
  else
    quantise_to_nearest(values, options, out);
  return true;
}

}  // namespace gradwire::lossy
