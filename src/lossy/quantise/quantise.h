// Values to symbols of one or two bytes and a few scales, and back.
// In: f32 values, options, and for random rounding a seed; or what a rank sent.
// Out: symbols and scales; or the values that they stand for.
// Assumes: nothing of the values: a NaN or an infinity is reported, not quantised, by every
// quantiser alike. Options have passed check_options.
// Finite values give finite ones back. The same input, options and seed give the same symbols on
// every CPU; a run of values that starts at a bucket can be quantised apart from the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "base/counter_random.h"

namespace gradwire::lossy {

/// The quantisers (sources in docs/methods.md). N is the scale of the value's bucket.
enum class QuantiserKind : std::uint8_t {
  uniform,  ///< QSGD: levels -s .. s of N / s each
  ternary,  ///< TernGrad: -N, 0, N
  sign,     ///< -N, N; a zero of either sign goes to N
  natural,  ///< 0 and powers of two
  bf16,     ///< to the nearest, ties to even; what is too large goes to the largest
  f16,      ///< the same
  e4m3,     ///< the same of x * 448 / N: 8 bits, OCP's type without infinities
  e5m2,     ///< the same of x * 57344 / N
};

enum class Norm : std::uint8_t {
  max,  ///< of the magnitudes
  l2,   ///< uniform: the Euclidean norm; sign: the root of the mean square
  l1,   ///< sign only: the mean magnitude
};

/// How a value between two symbols chooses.
enum class Rounding : std::uint8_t { random, nearest };

struct QuantiseOptions {
  QuantiserKind kind = QuantiserKind::uniform;
  unsigned levels = 127;            ///< uniform: s, 1 to 32767; above 127 symbols take two bytes
  std::size_t bucket_values = 512;  ///< values that share a scale; 0: all
  Norm norm = Norm::max;            ///< uniform: max or l2; sign: l1 or l2
  Rounding rounding = Rounding::random;  ///< of uniform; natural and ternary are random always
  float clip_deviations = 0;  ///< ternary: magnitudes above this many root mean squares of their
                              ///< bucket are clipped (2.5 in the paper), 1 or more; 0: none
};

/// What may be combined with a quantiser.
struct QuantiserTraits {
  bool additive;      ///< symbols of equal scales can be summed: `add`
  bool needs_shared;  ///< they have equal scales only if ranks agree on them beforehand
  bool random;        ///< uses the seed
  bool unbiased;      ///< the mean over seeds is the input, to 2^-23 of the value and of a step
  bool contractive;   ///< the (mean) squared error is at most (1 - d) |x|^2 for a d > 0, whatever
                      ///< the finite input, values outside the type's normal range excepted
  unsigned symbol_bytes;
};

constexpr QuantiserTraits traits_of(const QuantiseOptions& options) noexcept {
  using enum QuantiserKind;
  const bool random = options.rounding == Rounding::random;
  const std::uint64_t s = options.levels;
  // Random rounding errs by b / (4 s^2) at most in a bucket of b; a value at the maximum not at
  // all. To the nearest no value errs by more than itself, and the maximum again not at all.
  const bool fine = options.bucket_values != 0 && options.bucket_values < 4 * s * s;
  switch (options.kind) {
    case uniform:
      return {true,
              true,
              random,
              random,
              random ? fine : options.norm == Norm::max,
              s <= 127 ? 1u : 2u};
    case ternary:
      return {true, true, true, options.clip_deviations == 0, false, 1};
    case sign:
      return {true, true, false, false, options.norm == Norm::l1, 1};
    case natural:
      return {false, false, true, true, true, 2};
    case bf16:
    case f16:
      return {false, false, false, false, true, 2};
    case e4m3:
    case e5m2:
      return {false, false, false, false, true, 1};
  }
  return {};
}

using Symbols = std::variant<std::vector<std::uint8_t>, std::vector<std::uint16_t>>;

/// What a rank sends, or the sum of what `terms` ranks send.
struct Quantised {
  Symbols symbols;            ///< one a value; bytes if they fit
  std::vector<float> scales;  ///< one a bucket, finite and not negative; may be empty
  std::uint32_t terms = 1;    ///< ranks in the sum
  std::size_t size() const noexcept;
};

/// Throws invalid_argument and names the option.
void check_options(const QuantiseOptions& options);

/// Scales that n values have; 0 for natural, bf16 and f16.
std::size_t scale_count(const QuantiseOptions& options, std::size_t n) noexcept;

/// Symbols are below this number. For `terms` ranks in a sum.
std::uint32_t alphabet(const QuantiseOptions& options, std::uint32_t terms = 1) noexcept;

/// An upper bound of E |Q(x) - x|^2 / |x|^2 for n values with scales of their own, in exact
/// arithmetic and within the type's normal range; at most 1 where contractive.
double error_bound(const QuantiseOptions& options, std::size_t n) noexcept;

/// The scales of these values, to be agreed on: the maximum over ranks of each is right for all
/// kinds. False if a value is NaN or infinite: then `scales` is empty.
[[nodiscard]] bool measure_scales(std::span<const float> values, const QuantiseOptions& options,
                                  std::vector<float>& scales);

/// Quantises with scales of the values' own. Value i takes draw draws.first + i; a run that starts
/// at value f of a longer array, f a multiple of the bucket, takes first + f. False if a value is
/// NaN or infinite: then `out` is empty. `out` keeps its memory between calls.
[[nodiscard]] bool quantise(std::span<const float> values, const QuantiseOptions& options,
                            const Draws& draws, Quantised& out);

/// The same with scales that ranks agreed on. What is beyond a scale is clipped to it. Throws
/// invalid_argument if the number of scales is not scale_count or one is negative or not finite.
[[nodiscard]] bool quantise(std::span<const float> values, const QuantiseOptions& options,
                            const Draws& draws, std::span<const float> scales, Quantised& out);

/// The values, or their sum if there are several terms. `out` has one place a symbol. Throws
/// corrupt if sizes, scales or symbols are not what the options allow.
void dequantise(const Quantised& quantised, const QuantiseOptions& options, std::span<float> out);

/// sum += part. Symbols that no longer fit a byte get two. Throws invalid_argument if the kind is
/// not additive, transport if the sizes or scales differ, limit if two bytes do not hold the sum.
void add(Quantised& sum, const Quantised& part, const QuantiseOptions& options);

}  // namespace gradwire::lossy
