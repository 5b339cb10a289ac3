// Selectors: which elements of a gradient are sent.
// In: float values, options, and for sidco a state that the caller keeps for each parameter.
// Out: indices of the selected elements, ascending, in a buffer that keeps its capacity.
// Assumes: the default floating-point environment (nearest, subnormals kept); at most 2^32 - 1
// values. Nothing is allocated once the buffers have held what a call needs.
//
// Order. All selectors compare magnitudes by one rule: the value's bits without the sign, as an
// integer. So -0 equals 0, infinities are above all finite values, and a NaN is above infinity: a
// gradient with such values is neither refused nor hidden here, they are what is sent first. Only
// random_k, which never looks at values, may leave them out. Ties go to the lower index.
//
// Determinism. The same call gives the same indices on every CPU: sums are taken in a fixed order,
// no multiplication is fused with an addition, and logarithms are our own (base/portable_math.h).
// Ranks that must agree need more than that: only `all` and random_k, which depend on the count of
// values and on the seed, select the same on ranks whose values differ. With the others each rank
// decides for itself and sends its indices.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/buffer.h"

namespace gradwire::lossy {

using Words = std::vector<std::uint32_t, UninitialisedAllocator<std::uint32_t>>;
using Indices = Words;

enum class Selector : std::uint8_t {
  all,            ///< every element
  threshold,      ///< |x| >= threshold
  top_k,          ///< the `count` largest magnitudes, exactly
  sampled_top_k,  ///< DGC: 0.8 to 1.3 times `count`, by a threshold from a sample
  sidco,          ///< SIDCo: about `count`, by a threshold from fitted distributions
  random_k,       ///< `count` elements drawn by `seed`, all sets equally likely
};

/// The distributions of SIDCo: the one of the first stage, and the one of the later stages.
enum class SidcoModel : std::uint8_t {
  exponential,  ///< exponential in all stages
  pareto,       ///< generalised Pareto in all stages
  gamma,        ///< gamma first, then generalised Pareto
};

struct SelectOptions {
  Selector selector = Selector::top_k;
  std::size_t count = 0;       ///< k; more than there are values means all. See count_for_keep.
  double threshold = 0;        ///< of Selector::threshold; not negative, not NaN
  std::uint64_t seed = 0;      ///< of sampled_top_k, sidco (where samples lie), random_k (shared by
                               ///< ranks); let it depend on the parameter and the step
  double sample_share = 0.01;  ///< of sampled_top_k, in (0, 1]
  SidcoModel model = SidcoModel::pareto;
  unsigned stages = 3;  ///< with which sidco starts, 1 to 32
  bool bounded = true;  ///< sidco also learns how much more or less to ask for, and where under 0.8
                        ///< or over 1.3 times `count` pass takes the exact `count`; false: the
                        ///< number of stages adapts and nothing else, as published
};

/// What sidco learns about one parameter. Plain numbers, to be saved with the feedback's state.
struct SidcoState {
  unsigned stages = 0;    ///< 0: not started, take the options'
  unsigned steps = 0;     ///< since the number of stages was looked at, 0 to 4
  double ratio_sum = 0;   ///< over those steps: found / asked, before a surplus was cut
  double correction = 1;  ///< by which the asked number is multiplied, 1/8 to 8
};

/// Memory of one thread for any number of parameters; keeps its capacity.
struct SelectScratch {
  Words magnitudes;
  std::vector<std::uint64_t> marks;
};

/// ceil(keep * n), at least 1 where n is not 0. keep in (0, 1], else invalid_argument. A product
/// that misses an integer by rounding alone is that integer.
std::size_t count_for_keep(double keep, std::size_t n);

/// Puts the indices of the selected values into `indices`, ascending, in place of what was there.
/// `state` is read and changed by sidco alone. Throws invalid_argument for options or a state out
/// of range, limit for 2^32 values or more. Memory: 4 bytes a selected element, and in `scratch` at
/// most 4 bytes for the larger of the sample (2^17 or 128 n / count values, n at most) and the
/// elements that pass a first threshold; n / 8 bytes for random_k.
void select(std::span<const float> values, const SelectOptions& options, SidcoState& state,
            SelectScratch& scratch, Indices& indices);

}  // namespace gradwire::lossy
