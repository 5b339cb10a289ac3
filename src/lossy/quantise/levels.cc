#include "lossy/quantise/levels.h"

#include <algorithm>
#include <bit>

#include "base/clones.h"

namespace gradwire::lossy {
namespace {

constexpr auto kOne = std::bit_cast<std::int32_t>(1.0F);

/// `round_up(i, f)`: whether value i, which is f above a level in units of the step, goes up.
template <typename Symbol, typename RoundUp>
inline void quantise_run(const float* values, const LevelRun& given, Symbol* symbols,
                         const RoundUp& round_up) noexcept {
  // Without branches, which GCC makes of comparisons of floats.
  const LevelRun run = given;  // not reached by what is written
  const auto levels = static_cast<float>(run.levels);
  for (std::size_t i = 0; i < run.n; ++i) {
    // A quotient instead of a factor: it cannot overflow, and N itself gives the last level.
    const auto bits = std::bit_cast<std::int32_t>(values[i] / run.scale);
    const std::int32_t size = std::min(bits & 0x7fffffff, kOne);
    const float place = std::bit_cast<float>(size) * levels;
    const auto below = static_cast<std::int32_t>(place);
    const float fraction = place - static_cast<float>(below);
    const std::int32_t level = below + std::int32_t{round_up(i, fraction)};
    const std::int32_t sign = bits >> 31;  // 0 or -1
    symbols[i] = static_cast<Symbol>(run.levels + ((level ^ sign) - sign));
  }
}

template <typename Symbol>
GRADWIRE_CLONES void random_levels(const float* values, const LevelRun& run,
                                   Symbol* symbols) noexcept {
  const RandomKey key = run.key;
  const std::uint32_t first = run.first;
  quantise_run(values, run, symbols, [key, first](std::size_t i, float fraction) {
    return random_unit(key, first + static_cast<std::uint32_t>(i)) < fraction;
  });
}

template <typename Symbol>
GRADWIRE_CLONES void nearest_levels(const float* values, const LevelRun& run,
                                    Symbol* symbols) noexcept {
  quantise_run(values, run, symbols, [](std::size_t, float fraction) { return fraction >= 0.5F; });
}

template <typename Symbol>
void quantise_levels(const float* values, const LevelRun& run, Symbol* symbols) noexcept {
  if (run.scale == 0)
    std::fill_n(symbols, run.n, static_cast<Symbol>(run.levels));
  else if (run.random)
    random_levels(values, run, symbols);
  else
    nearest_levels(values, run, symbols);
}

GRADWIRE_CLONES void signs(const float* values, std::size_t n, std::uint8_t* symbols) noexcept {
  for (std::size_t i = 0; i < n; ++i) symbols[i] = values[i] < 0 ? 0 : 1;
}

template <typename Symbol>
GRADWIRE_CLONES void restore_levels(const Symbol* symbols, std::size_t n, const LevelMap& given,
                                    float scale, float* values) noexcept {
  const LevelMap map = given;
  const auto levels = static_cast<float>(map.levels);
  for (std::size_t i = 0; i < n; ++i) {
    const std::int32_t level = map.step * std::int32_t{symbols[i]} - map.offset;
    values[i] = static_cast<float>(level) / levels * scale;
  }
}

}  // namespace

void to_levels(const float* values, const LevelRun& run, std::uint8_t* symbols) noexcept {
  quantise_levels(values, run, symbols);
}
void to_levels(const float* values, const LevelRun& run, std::uint16_t* symbols) noexcept {
  quantise_levels(values, run, symbols);
}

void to_signs(const float* values, std::size_t n, std::uint8_t* symbols) noexcept {
  signs(values, n, symbols);
}

void from_levels(const std::uint8_t* symbols, std::size_t n, const LevelMap& map, float scale,
                 float* values) noexcept {
  restore_levels(symbols, n, map, scale, values);
}
void from_levels(const std::uint16_t* symbols, std::size_t n, const LevelMap& map, float scale,
                 float* values) noexcept {
  restore_levels(symbols, n, map, scale, values);
}

}  // namespace gradwire::lossy
