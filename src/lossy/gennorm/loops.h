// The loops over values of one bucket.
// In: values and their scale; or symbols.
// Out: sums; symbols; or values.
// Assumes: what is quantised is finite, scales are finite and above zero. Symbols are below the
// number of levels.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace gradwire::lossy {

/// Of what is not zero.
struct BucketSums {
  std::size_t count = 0;
  double magnitudes = 0;
  double squares = 0;  ///< not finite if and only if a value is not
  float largest = 0;   ///< magnitude
};
BucketSums measure(const float* values, std::size_t n) noexcept;

/// The bounds between the magnitudes of symmetric levels, padded for a search by halves.
class NearestLevel {
 public:
  explicit NearestLevel(std::span<const float> levels);
  void quantise(const float* values, std::size_t n, float scale,
                std::uint8_t* symbols) const noexcept;

 private:
  std::array<std::int32_t, 128> bounds_;  ///< as bits; the places above are infinite
  std::int32_t first_step_;               ///< of the search: a power of two
  std::int32_t positive_;                 ///< symbol of the least magnitude with the sign plus
  std::int32_t negative_;                 ///< and minus: the same if zero is a level
};

/// A float type in units of its least number, which is 2^unit_exponent.
struct FloatType {
  unsigned exponent_bits;
  unsigned fraction_bits;
  int unit_exponent;  ///< -149 to 127
};
void to_float_levels(const float* values, std::size_t n, const FloatType& type,
                     std::uint8_t* symbols) noexcept;

/// The sum of squared errors of that, in squares of the unit; infinite if a value is that far
/// above.
double float_error(const float* values, std::size_t n, const FloatType& type) noexcept;

/// level * scale, at most the largest float.
void from_levels(const std::uint8_t* symbols, std::size_t n, std::span<const float> levels,
                 float scale, float* values) noexcept;

}  // namespace gradwire::lossy
