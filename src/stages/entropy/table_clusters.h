// Few tables for many histograms: K-means over probability vectors.
// In: histograms over one alphabet.
// Out: frequencies, every symbol of the alphabet with at least 1.
// Assumes: nothing; the same histograms in the same order give the same tables on every machine.
// Source: Lloyd's algorithm. A member's distance is the bits that a table's own Huffman code takes
// for it, and a centre is the sum of its members, each scaled to the same weight.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "stages/entropy/code_lengths.h"

namespace gradwire::entropy {

/// A histogram scaled to a fixed weight: what of it is not zero.
using ScaledHistogram = std::vector<std::pair<std::uint16_t, std::uint16_t>>;

/// Empty when the counts are.
ScaledHistogram scale_histogram(std::span<const std::uint32_t> counts);

/// At most `tables` tables over `symbols` symbols, the one with the most members first.
std::vector<Values> cluster_tables(std::span<const ScaledHistogram> members, unsigned symbols,
                                   unsigned tables);

}  // namespace gradwire::entropy
