// Flags as Golomb-Rice codes of the distances between the rarer ones (docs/format.md 12.4).
// In: places of set flags, ascending; or bits.
// Out: bits; or those places.
// Assumes: both sides know how many flags there are. Source: Golomb 1966, Rice 1979.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bits.h"
#include "stages/delta/law.h"

namespace gradwire::delta {

/// Bits that the flags take, exactly.
std::uint64_t run_bits(std::span<const std::uint32_t> set, std::uint32_t flags,
                       const RunCode& code) noexcept;
void write_runs(std::span<const std::uint32_t> set, std::uint32_t flags, const RunCode& code,
                BitWriter& out) noexcept;
/// Replaces `set`. False for bits that no writer makes, or when they end before the flags do.
bool read_runs(BitReader& in, std::uint32_t flags, const RunCode& code,
               std::vector<std::uint32_t>& set);

}  // namespace gradwire::delta
