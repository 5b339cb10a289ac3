#include "stages/delta/runs.h"

#include <bit>

namespace gradwire::delta {
namespace {

constexpr unsigned kOnes = 32;  ///< that are looked at together

/// Calls told(distance) for each flag of the rare value, and then rest(flags behind the last).
template <typename Told, typename Rest>
void walk(std::span<const std::uint32_t> set, std::uint32_t flags, bool rare, Told&& told,
          Rest&& rest) noexcept {
  std::uint32_t at = 0;
  if (rare) {
    for (const std::uint32_t place : set) {
      told(place - at);
      at = place + 1;
    }
    return rest(flags - at);
  }
  std::uint32_t distance = 0;  // set flags since the last one that is not
  for (const std::uint32_t place : set) {
    for (; at < place; ++at) {
      told(distance);
      distance = 0;
    }
    ++at;
    ++distance;
  }
  for (; at < flags; ++at) {
    told(distance);
    distance = 0;
  }
  rest(distance);
}

/// Ones that say that nothing rare follows in `left` flags.
std::uint32_t closing_ones(std::uint32_t left, unsigned low_bits) noexcept {
  return static_cast<std::uint32_t>((std::uint64_t{left} + (std::uint64_t{1} << low_bits) - 1) >>
                                    low_bits);
}

/// The distance to the next rare flag, `left` if there is none; more than that for no code. Bits
/// beyond the end are zeros, so that an overrun is soon over, and the caller sees it.
std::uint64_t read_distance(BitReader& in, std::uint32_t left, unsigned low_bits) noexcept {
  std::uint64_t distance = 0;
  while (distance < left) {
    const auto ones = static_cast<unsigned>(std::countr_one(in.peek(kOnes)));
    const std::uint64_t wanted =
        closing_ones(left - static_cast<std::uint32_t>(distance), low_bits);
    if (ones >= wanted) {
      in.skip(static_cast<unsigned>(wanted));
      return left;
    }
    distance += std::uint64_t{ones} << low_bits;
    if (ones < kOnes) {
      in.skip(ones + 1);
      const std::uint64_t found = distance + in.get(low_bits);
      return found < left ? found : UINT64_MAX;
    }
    in.skip(kOnes);
  }
  return left;
}

void append_range(std::vector<std::uint32_t>& set, std::uint32_t first, std::uint32_t last) {
  for (std::uint32_t i = first; i < last; ++i) set.push_back(i);
}

}  // namespace

std::uint64_t run_bits(std::span<const std::uint32_t> set, std::uint32_t flags,
                       const RunCode& code) noexcept {
  std::uint64_t bits = 0;
  walk(
      set, flags, code.rare,
      [&](std::uint32_t distance) { bits += (distance >> code.low_bits) + 1 + code.low_bits; },
      [&](std::uint32_t left) { bits += closing_ones(left, code.low_bits); });
  return bits;
}

void write_runs(std::span<const std::uint32_t> set, std::uint32_t flags, const RunCode& code,
                BitWriter& out) noexcept {
  const std::uint32_t low_mask = (std::uint32_t{1} << code.low_bits) - 1;
  walk(
      set, flags, code.rare,
      [&](std::uint32_t distance) {
        put_ones(out, distance >> code.low_bits, true);
        out.put(distance & low_mask, code.low_bits);
      },
      [&](std::uint32_t left) { put_ones(out, closing_ones(left, code.low_bits), false); });
}

bool read_runs(BitReader& in, std::uint32_t flags, const RunCode& code,
               std::vector<std::uint32_t>& set) {
  set.clear();
  for (std::uint32_t at = 0; at < flags;) {
    const std::uint32_t left = flags - at;
    const std::uint64_t distance = read_distance(in, left, code.low_bits);
    if (distance > left) return false;
    const std::uint32_t next = at + static_cast<std::uint32_t>(distance);
    if (!code.rare) append_range(set, at, next);
    if (code.rare && next < flags) set.push_back(next);
    at = next + 1;
  }
  return !in.overrun();
}

}  // namespace gradwire::delta
