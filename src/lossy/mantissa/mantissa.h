// Near-lossless floats: fewer fraction bits the further a value's exponent lies below the tensor's
// largest. What is left belongs to the lossless codec, whose level 2 counts fraction bits.
// In: f32 values and options.
// Out: f32 values, rounded to the nearest, ties to the even pattern.
// Assumes: nothing of the values: a NaN or an infinity is reported, nothing is rounded then.
// Rounded once, values stay as they are when rounded again, while none of them was pruned or grew
// into the octave above the largest. The same bits on every CPU.
// Source: GComp, a near-lossless gradient compressor; its abstract only names mantissa levels by
// exponent and pruning, so the ladder's form is ours.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace gradwire::lossy {

struct MantissaOptions {
  unsigned top_bits = 9;      ///< fraction bits of the largest values, 0 to 23
  unsigned top_octaves = 0;   ///< octaves below the largest that keep as many, 0 to 255
  float slope = 0.5F;         ///< bits fewer for each octave below, 0 to 23
  unsigned fewest_bits = 3;   ///< no value keeps fewer, 0 to top_bits
  unsigned kept_octaves = 0;  ///< what lies this many octaves below the largest, or more, becomes
                              ///< zero; 1 to 255, 0: nothing does
};

/// Throws invalid_argument and names the option.
void check_options(const MantissaOptions& options);

/// Fraction bits that a value `octaves` below the largest exponent keeps; -1: it becomes zero.
int kept_bits(const MantissaOptions& options, unsigned octaves) noexcept;

/// Rounds `values` to `out`, of the same size and perhaps the same memory. A value that keeps m
/// bits errs by at most 2^-(m + 1) of itself; by 2^-m where more would make it infinite. Signs
/// stay, those of zeros too. What is below 2^-126 keeps all its bits or becomes zero. False if a
/// value is NaN or infinite: then `out` is untouched.
[[nodiscard]] bool round_mantissas(std::span<const float> values, const MantissaOptions& options,
                                   std::span<float> out);

}  // namespace gradwire::lossy
