// What the weights and the fits of gennorm tables share (docs/format.md 4.6, 10).
// In: parameters, or their fields.
// Out: fields, parameters, numbers of the frozen table.
// Assumes: rows below 16, medians and shares below 64, means below 256.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "stages/entropy/gennorm.h"

namespace gradwire::entropy::gennorm {

inline constexpr int kFirstEdge = -64;
inline constexpr int kLastEdge = 48;
inline constexpr std::uint64_t kTotal = 1u << 20;
/// Every symbol has at least this weight, 2^-12 of the total.
inline constexpr std::uint64_t kFloor = 256;
inline constexpr std::array<std::uint64_t, 4> kZeroWeights{0, kTotal >> 6, kTotal >> 3,
                                                           kTotal >> 1};
inline constexpr unsigned kShapes = 16;
inline constexpr unsigned kMedians = 64;
inline constexpr unsigned kShares = 64;
inline constexpr unsigned kMeans = 256;
inline constexpr unsigned kMaxStepLog2 = 2;
inline constexpr std::size_t kMaxAlphabet = 126;

/// One generalised normal variable.
struct Part {
  unsigned row = 0;
  unsigned median = 0;  ///< quarter octaves above the origin
};

struct Fields {
  Part part;
  GennormLayout layout;
  unsigned zero_class = 0;
  bool more = false;
  Part other;          ///< of a mixture
  unsigned share = 0;  ///< of the other part, in 64ths
  unsigned mean = 0;   ///< with flips; 16ths of an octave above the origin

  bool has_mean() const { return more && layout.flips; }
};

Fields unpack(const GennormParameters& parameters);
GennormParameters pack(const Fields& fields);

/// 2^20 times the probability of lying below an edge, in quarter octaves from the median.
std::uint64_t below_edge(unsigned row, int edge);

inline unsigned symbols_a_residual(GennormLayout layout) { return layout.flips ? 2 : 1; }

/// Quarter octaves a residual.
inline int edge_step(GennormLayout layout) { return 4 >> layout.step_log2; }

/// Where a window begins, in quarter octaves from the origin: there, or 16 octaves before its end.
inline int first_edge(GennormLayout layout, unsigned window) {
  return std::min(64 - static_cast<int>(window) * edge_step(layout), 0);
}

/// Residuals in an alphabet, 0 when it has not this layout.
unsigned window_of(std::size_t alphabet, GennormLayout layout);

/// Weights of all symbols; `weights` has an alphabet that has this layout.
void fill_weights(const Fields& fields, std::span<std::uint64_t> weights);

}  // namespace gradwire::entropy::gennorm
