// Values of one bucket to equally spaced levels and back.
// In: values and their scale; or symbols.
// Out: symbols; or values.
// Assumes: finite values, a finite scale that is not negative. Draws do not cross a multiple of
// 2^32. Symbols are below the alphabet.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/counter_random.h"

namespace gradwire::lossy {

/// Level l of -levels .. levels becomes the symbol l + levels and stands for l / levels * scale.
struct LevelRun {
  std::size_t n;
  float scale;
  std::int32_t levels;
  bool random;  ///< else to the nearest level, a value in the middle to the larger magnitude
  RandomKey key;
  std::uint32_t first;  ///< lower half of the first value's draw
};

void to_levels(const float* values, const LevelRun& run, std::uint8_t* symbols) noexcept;
void to_levels(const float* values, const LevelRun& run, std::uint16_t* symbols) noexcept;

/// 0 where a value is below zero, else 1.
void to_signs(const float* values, std::size_t n, std::uint8_t* symbols) noexcept;

/// A symbol stands for (step * symbol - offset) / levels * scale.
struct LevelMap {
  std::int32_t step;
  std::int32_t offset;
  std::int32_t levels;
};

void from_levels(const std::uint8_t* symbols, std::size_t n, const LevelMap& map, float scale,
                 float* values) noexcept;
void from_levels(const std::uint16_t* symbols, std::size_t n, const LevelMap& map, float scale,
                 float* values) noexcept;

}  // namespace gradwire::lossy
