// The side that receives symbols.
#include <algorithm>
#include <cmath>

#include "base/buckets.h"
#include "base/fail.h"
#include "lossy/gennorm/gennorm.h"
#include "lossy/gennorm/loops.h"
#include "lossy/gennorm/scales.h"

namespace gradwire::lossy {
namespace {

constexpr auto kCorrupt = ErrorKind::corrupt;

void check_scales(std::span<const float> scales, const GennormOptions& options, std::size_t n) {
  const std::size_t step = options.bucket_values == 0 ? n : options.bucket_values;
  const std::size_t expected = n == 0 ? 0 : n / step + (n % step != 0 ? 1 : 0);
  if (scales.size() != expected)
    fail(kCorrupt, "gennorm: {} scales for {} values, {} expected", scales.size(), n, expected);
  for (std::size_t i = 0; i < scales.size(); ++i)
    if (!(scales[i] >= 0 && std::isfinite(scales[i])))
      fail(kCorrupt, "gennorm: scale {} is {}; it must be finite and not negative", i, scales[i]);
}

}  // namespace

void dequantise(const GennormSymbols& quantised, const GennormOptions& options,
                std::span<float> out) {
  check_options(options);
  const std::vector<std::uint8_t>& symbols = quantised.symbols;
  if (out.size() != symbols.size())
    fail(kCorrupt, "gennorm: {} symbols for {} values", symbols.size(), out.size());
  check_model(quantised.model);
  check_scales(quantised.scales, options, symbols.size());
  if (symbols.empty()) return;
  if (const unsigned most = *std::ranges::max_element(symbols); most >= alphabet(options))
    fail(kCorrupt, "gennorm: symbol {} found, the largest allowed is {}", most,
         alphabet(options) - 1);
  const std::shared_ptr<const Levels> levels = levels_of(options, quantised.model.level_row);
  for_each_bucket(symbols.size(), options.bucket_values,
                  [&](std::size_t bucket, std::size_t at, std::size_t n) {
                    from_levels(symbols.data() + at, n, *levels, quantised.scales[bucket],
                                out.data() + at);
                  });
}

}  // namespace gradwire::lossy
