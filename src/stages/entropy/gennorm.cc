#include "stages/entropy/gennorm.h"

#include <algorithm>
#include <bit>

#include "stages/entropy/gennorm_model.h"

namespace gradwire::entropy {
namespace gennorm {
namespace {

struct ShapeRow {
  unsigned hundredths;
  std::array<std::uint32_t, kLastEdge - kFirstEdge + 1> below;
};

constexpr std::array<ShapeRow, kShapes> kTable{{
#include "stages/entropy/gennorm_table.inc"
}};

// --- about zero --------------------------------------------------------------------

void weigh_about_zero(const Fields& fields, std::span<std::uint64_t> weights) {
  const unsigned symbols = symbols_a_residual(fields.layout);
  const int step = edge_step(fields.layout);
  const int first = first_edge(fields.layout, window_of(weights.size(), fields.layout));
  const auto below = [&](std::size_t residual) {
    const int edge = first + static_cast<int>(residual) * step;
    const auto of_part = [edge](const Part& part) {
      return below_edge(part.row, edge - static_cast<int>(part.median));
    };
    const std::uint64_t main = of_part(fields.part);
    if (fields.share == 0) return main;
    return ((kShares - fields.share) * main + fields.share * of_part(fields.other)) / kShares;
  };
  const std::uint64_t before = below(0);
  std::uint64_t low = before;
  for (std::size_t s = 0; s + 2 < weights.size(); s += symbols) {
    const std::uint64_t high = below(s / symbols + 1);
    for (unsigned flip = 0; flip < symbols; ++flip) {
      weights[s + flip] = (high - low) / symbols + kFloor;
    }
    low = high;
  }
  weights.back() = before + kTotal - low + kFloor;
}

// --- about a mean ------------------------------------------------------------------

/// 2^(60 + f / 16), rounded down; what these are shifted down to is then rounded down as well.
constexpr std::array<std::uint64_t, 16> kPowers{
    0x1000000000000000, 0x10b5586cf9890f62, 0x1172b83c7d517adc, 0x12387a6e75623866,
    0x1306fe0a31b7152d, 0x13dea64c12342235, 0x14bfdad5362a271d, 0x15ab07dd48542958,
    0x16a09e667f3bcc90, 0x17a11473eb0186d7, 0x18ace5422aa0db5b, 0x19c49182a3f0901c,
    0x1ae89f995ad3ad5e, 0x1c199bdd85529c22, 0x1d5818dcfba48725, 0x1ea4afa2a490d985};

/// Magnitude at a sixteenth of an octave from the origin, where it is 2^16.
std::int64_t magnitude(int sixteenths) {
  return static_cast<std::int64_t>(kPowers[static_cast<unsigned>(sixteenths) & 15] >>
                                   (44 - (sixteenths >> 4)));
}

std::int64_t quarter_octave(int edge) { return magnitude(4 * edge); }

/// 2^20 times the probability of a smaller distance from the mean; the density is taken as even
/// within a quarter octave. Products stay below 2^52, for a distance is below 2^34.
std::int64_t nearer(const Part& part, std::int64_t distance) {
  if (distance == 0) return 0;
  int edge = 4 * (static_cast<int>(std::bit_width(static_cast<std::uint64_t>(distance))) - 17);
  while (quarter_octave(edge + 1) <= distance) ++edge;
  const int from_median = edge - static_cast<int>(part.median);
  const auto low = static_cast<std::int64_t>(below_edge(part.row, from_median));
  const auto high = static_cast<std::int64_t>(below_edge(part.row, from_median + 1));
  const std::int64_t start = quarter_octave(edge);
  return low + (high - low) * (distance - start) / (quarter_octave(edge + 1) - start);
}

/// 2^21 times the probability of the values from the mean up to a magnitude, on the side of the
/// guess; and of those as far as this magnitude on the other side.
struct Sides {
  std::int64_t same;
  std::int64_t other;
};

void weigh_about_mean(const Fields& fields, std::span<std::uint64_t> weights) {
  const std::int64_t mean = magnitude(static_cast<int>(fields.mean));
  const int step = edge_step(fields.layout);
  const int first = first_edge(fields.layout, window_of(weights.size(), fields.layout));
  const auto sides_at = [&](std::size_t residual) -> Sides {
    const std::int64_t at =
        quarter_octave(std::max(first + static_cast<int>(residual) * step, kFirstEdge));
    return {at < mean ? -nearer(fields.part, mean - at) : nearer(fields.part, at - mean),
            nearer(fields.part, at + mean)};
  };
  const Sides before = sides_at(0);
  Sides low = before;
  for (std::size_t s = 0; s + 2 < weights.size(); s += 2) {
    const Sides high = sides_at(s / 2 + 1);
    weights[s] = static_cast<std::uint64_t>(high.same - low.same) / 2 + kFloor;
    weights[s + 1] = static_cast<std::uint64_t>(high.other - low.other) / 2 + kFloor;
    low = high;
  }
  const std::int64_t inside = low.same - before.same + low.other - before.other;
  weights.back() = kTotal - static_cast<std::uint64_t>(inside) / 2 + kFloor;
}

}  // namespace

Fields unpack(const GennormParameters& parameters) {
  const unsigned shape = parameters.shape;
  Fields fields;
  fields.part = {shape & 15, parameters.scale & 63u};
  fields.layout = {shape >> 5 & 3, (shape >> 4 & 1) != 0};
  fields.zero_class = parameters.scale >> 6;
  fields.more = shape >> 7 != 0;
  if (fields.has_mean()) {
    fields.mean = parameters.more & 255u;
  } else if (fields.more) {
    fields.other = {parameters.more & 15u, parameters.more >> 4 & 63u};
    fields.share = parameters.more >> 10;
  }
  return fields;
}

GennormParameters pack(const Fields& fields) {
  const unsigned flips = fields.layout.flips ? 16 : 0;
  const unsigned more = fields.more ? 128 : 0;
  const unsigned mixture = fields.other.row | fields.other.median << 4 | fields.share << 10;
  return {static_cast<std::uint8_t>(fields.part.row | flips | fields.layout.step_log2 << 5 | more),
          static_cast<std::uint8_t>(fields.part.median | fields.zero_class << 6),
          static_cast<std::uint16_t>(fields.has_mean() ? fields.mean : mixture)};
}

std::uint64_t below_edge(unsigned row, int edge) {
  const int i = std::clamp(edge, kFirstEdge, kLastEdge) - kFirstEdge;
  return kTable[row].below[static_cast<std::size_t>(i)];
}

unsigned window_of(std::size_t alphabet, GennormLayout layout) {
  const unsigned symbols = symbols_a_residual(layout);
  const bool possible = alphabet > 2 && alphabet <= kMaxAlphabet && alphabet % symbols == 0;
  return possible && layout.step_log2 <= kMaxStepLog2
             ? static_cast<unsigned>(alphabet - 2) / symbols
             : 0;
}

void fill_weights(const Fields& fields, std::span<std::uint64_t> weights) {
  if (fields.has_mean()) {
    weigh_about_mean(fields, weights);
  } else {
    weigh_about_zero(fields, weights);
  }
  weights[weights.size() - 2] = kZeroWeights[fields.zero_class] + kFloor;
}

}  // namespace gennorm

bool gennorm_weights(const GennormParameters& parameters, std::span<std::uint64_t> weights) {
  const gennorm::Fields fields = gennorm::unpack(parameters);
  if (gennorm::window_of(weights.size(), fields.layout) == 0) return false;
  gennorm::fill_weights(fields, weights);
  return true;
}

double gennorm_shape(std::uint8_t shape) { return gennorm::kTable[shape & 15].hundredths / 100.0; }

}  // namespace gradwire::entropy
