#include "feedback/loops.h"

#include <bit>
#include <cstdint>

#include "base/clones.h"
#include "base/lane_sum.h"

namespace gradwire::feedback {
namespace {

/// 1 for a NaN or an infinity.
inline unsigned not_finite(float value) noexcept {
  constexpr std::int32_t kInfinity = 0x7f800000;
  return (std::bit_cast<std::int32_t>(value) & 0x7fffffff) >= kInfinity ? 1u : 0u;
}

GRADWIRE_CLONES bool error_is_finite(const float* gradient, float factor, std::size_t n,
                                     const float* error) noexcept {
  unsigned found = 0;
  for (std::size_t i = 0; i < n; ++i) found |= not_finite(gradient[i] + factor * error[i]);
  return found == 0;
}

GRADWIRE_CLONES void write_error(const float* gradient, float factor, std::size_t n,
                                 float* error) noexcept {
  for (std::size_t i = 0; i < n; ++i) error[i] = gradient[i] + factor * error[i];
}

struct Pair {
  float u;
  float v;
};

template <bool kNesterov>
inline Pair next_of(const MomentumStep& step, float gradient, float u, float v) noexcept {
  const float g = step.clip * gradient;
  if constexpr (kNesterov) {
    const float next = step.momentum * (u + g);
    return {next, step.keep * v + next + g};
  }
  const float next = step.momentum * u + g;
  return {next, step.keep * v + next};
}

template <bool kNesterov>
GRADWIRE_CLONES bool momentum_is_finite(const float* gradient, const MomentumStep& given,
                                        std::size_t n, const float* u, const float* v) noexcept {
  const MomentumStep step = given;
  unsigned found = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const Pair next = next_of<kNesterov>(step, gradient[i], u[i], v[i]);
    // An infinite u makes v infinite or NaN, too.
    found |= not_finite(next.v);
  }
  return found == 0;
}

template <bool kNesterov>
GRADWIRE_CLONES void write_momentum(const float* gradient, const MomentumStep& given, std::size_t n,
                                    float* u, float* v) noexcept {
  const MomentumStep step = given;  // not reached by what is written
  for (std::size_t i = 0; i < n; ++i) {
    const Pair next = next_of<kNesterov>(step, gradient[i], u[i], v[i]);
    u[i] = next.u;
    v[i] = next.v;
  }
}

template <bool kNesterov>
bool take_momentum_step(const float* gradient, const MomentumStep& step, std::size_t n, float* u,
                        float* v) noexcept {
  if (!momentum_is_finite<kNesterov>(gradient, step, n, u, v)) return false;
  write_momentum<kNesterov>(gradient, step, n, u, v);
  return true;
}

GRADWIRE_CLONES void subtract_all(const float* decoded, std::size_t n, float* error) noexcept {
  for (std::size_t i = 0; i < n; ++i) error[i] -= decoded[i];
}

GRADWIRE_CLONES void mask_all(const float* decoded, std::size_t n, float* u) noexcept {
  for (std::size_t i = 0; i < n; ++i) u[i] = decoded[i] != 0 ? 0 : u[i];
}

GRADWIRE_CLONES double squares(const float* values, std::size_t n) noexcept {
  return sum_of_squares_in_lanes(values, n);
}

}  // namespace

bool add_error(const float* gradient, float factor, std::size_t n, float* error) noexcept {
  if (!error_is_finite(gradient, factor, n, error)) return false;
  write_error(gradient, factor, n, error);
  return true;
}

bool add_momentum(const float* gradient, const MomentumStep& step, std::size_t n, float* u,
                  float* v) noexcept {
  return step.nesterov ? take_momentum_step<true>(gradient, step, n, u, v)
                       : take_momentum_step<false>(gradient, step, n, u, v);
}

void subtract(const float* decoded, std::size_t n, float* error) noexcept {
  subtract_all(decoded, n, error);
}

void mask(const float* decoded, std::size_t n, float* u) noexcept { mask_all(decoded, n, u); }

double sum_of_squares(const float* values, std::size_t n) noexcept { return squares(values, n); }

}  // namespace gradwire::feedback
