// Parameters of the float pipelines, shared by the frame that carries them and the stages that
// obey them.
// In: fields of the `tensor` section (docs/format.md 3.1, 6.1).
// Out: derived sizes.
// Assumes: ranges as read_tensor_header checks them.
#pragma once

#include <cstdint>

namespace gradwire {

enum class SignMode : std::uint8_t { raw = 0, rank_one = 1, tap = 2 };

struct ScaledParameters {
  unsigned kept = 0;       ///< w, fraction bits kept
  unsigned step_log2 = 0;  ///< p, fraction bits in the symbol
  unsigned window = 14;    ///< V, residuals in the alphabet
  bool has_scales = false;
  bool halved = false;
  bool counted = false;
  bool joint = false;  ///< symbol and count in one sequence
  bool has_zero = false;
  unsigned low_count = 0;  ///< lo
  SignMode sign_mode = SignMode::raw;
  std::uint64_t columns = 1;
  std::uint64_t origin = 0;
  std::uint64_t taps = 1;
  std::uint64_t inner = 1;

  unsigned sign_factor() const noexcept { return sign_mode == SignMode::raw ? 1 : 2; }
  unsigned zero_symbol() const noexcept { return sign_factor() * window; }
  unsigned escape_symbol() const noexcept { return zero_symbol() + 1; }
  unsigned alphabet() const noexcept { return zero_symbol() + 2; }
  /// Fraction bits of a record, without the sign.
  unsigned rest_bits() const noexcept { return kept - step_log2; }
  unsigned record_bits() const noexcept {
    return rest_bits() + (sign_mode == SignMode::raw ? 1 : 0);
  }
};

struct KernelParameters {
  unsigned kept = 0;
  bool counted = false;
  unsigned low_count = 0;
  std::uint64_t taps = 2;
  std::uint64_t inner = 1;
};

}  // namespace gradwire
