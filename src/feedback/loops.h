// The loops over a parameter's elements.
// In: buffers of n floats that do not overlap, factors.
// Out: the buffers of the next step.
// Assumes: nothing of the values. Products and sums are rounded one by one, in the order written,
// so that every CPU gives the same bits.
#pragma once

#include <cstddef>

namespace gradwire::feedback {

/// x = g + factor e, in place of e. False, and nothing changed, if an x is not finite.
bool add_error(const float* gradient, float factor, std::size_t n, float* error) noexcept;

struct MomentumStep {
  float clip;      ///< factor of the gradient
  float momentum;  ///< m
  float keep;      ///< factor of v
  bool nesterov;
};

/// u = m u + g; v = keep v + u, or with Nesterov u = m (u + g); v = keep v + u + g; g is clip
/// times the gradient. False, and nothing changed, if a u or v is not finite.
bool add_momentum(const float* gradient, const MomentumStep& step, std::size_t n, float* u,
                  float* v) noexcept;

/// e = e - decoded.
void subtract(const float* decoded, std::size_t n, float* error) noexcept;

/// u = 0 where something was sent.
void mask(const float* decoded, std::size_t n, float* u) noexcept;

/// In double, in one order.
double sum_of_squares(const float* values, std::size_t n) noexcept;

}  // namespace gradwire::feedback
