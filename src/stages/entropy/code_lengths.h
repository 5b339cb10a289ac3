// Code lengths and frequencies from weights, by the normative rules of docs/format.md 4.4; and the
// best frequencies, which no rule asks for.
// In: integer weights of up to 256 symbols.
// Out: lengths of a complete code, or frequencies of sum 4096.
// Assumes: the sum of the weights is below 2^52.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace gradwire::entropy {

inline constexpr unsigned kMaxCodeLength = 11;
inline constexpr unsigned kProbabilityBits = 12;
inline constexpr unsigned kMaxSymbols = 256;

/// Code lengths or frequencies, one a symbol; 0 = symbol absent.
using Values = std::array<std::uint16_t, kMaxSymbols>;

/// Lengths of an optimal code of at most `limit` bits (package-merge, Larmore & Hirschberg 1990).
Values code_lengths(std::span<const std::uint64_t> weights, unsigned limit = kMaxCodeLength);
/// As short in total and quicker, for codes whose lengths are written: of equal weights others may
/// get the shorter code than the format says for codes that are derived.
Values quick_code_lengths(std::span<const std::uint64_t> weights, unsigned limit = kMaxCodeLength);

/// Frequencies that sum to 4096; every weight above 0 gets at least 1.
Values normalised_frequencies(std::span<const std::uint64_t> weights);

/// Those by which weights below 2^44 cost the fewest bits: for tables that are sent.
Values best_frequencies(std::span<const std::uint64_t> weights);

}  // namespace gradwire::entropy
