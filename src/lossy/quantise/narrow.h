// Values to narrower floats and back: powers of two, bf16, f16 and two types of 8 bits.
// In: values; or symbols.
// Out: symbols; or values.
// Assumes: finite values; a run's draws do not cross a multiple of 2^32. Any symbol is decoded as
// its type says, an infinity or NaN included; a power of two has an exponent field below 255.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/counter_random.h"

namespace gradwire::lossy {

/// A power of two: sign << 8 | exponent field of the float, where 0 is zero (with its sign).
/// Magnitudes go up with the probability that makes the mean right; over 2^127 all go down.
void to_powers(const float* values, std::size_t n, const RandomKey& key, std::uint32_t first,
               std::uint16_t* symbols) noexcept;
void from_powers(const std::uint16_t* symbols, std::size_t n, float* values) noexcept;

void to_bf16(const float* values, std::size_t n, std::uint16_t* symbols) noexcept;
void from_bf16(const std::uint16_t* symbols, std::size_t n, float* values) noexcept;
void to_f16(const float* values, std::size_t n, std::uint16_t* symbols) noexcept;
void from_f16(const std::uint16_t* symbols, std::size_t n, float* values) noexcept;

/// 8-bit floats whose largest, 448 or 57344, stands for the scale.
void to_e4m3(const float* values, std::size_t n, float scale, std::uint8_t* symbols) noexcept;
void from_e4m3(const std::uint8_t* symbols, std::size_t n, float scale, float* values) noexcept;
void to_e5m2(const float* values, std::size_t n, float scale, std::uint8_t* symbols) noexcept;
void from_e5m2(const std::uint8_t* symbols, std::size_t n, float scale, float* values) noexcept;

}  // namespace gradwire::lossy
