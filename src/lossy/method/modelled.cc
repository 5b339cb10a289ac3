// Methods that model what values look like.
#include "lossy/method/settings.h"

namespace gradwire::lossy {
namespace {

GennormOptions& levels(Recipe& recipe) {
  if (!std::holds_alternative<GennormOptions>(recipe.values)) recipe.values = GennormOptions();
  return std::get<GennormOptions>(recipe.values);
}

MantissaOptions& mantissas(Recipe& recipe) {
  if (!std::holds_alternative<MantissaOptions>(recipe.values)) recipe.values = MantissaOptions();
  return std::get<MantissaOptions>(recipe.values);
}

template <typename T>
T whole(Text key, Text value, std::uint64_t least, std::uint64_t most) {
  return static_cast<T>(parse_whole(key, value, least, most));
}

constexpr Setting kLevelBucket{
    {"bucket", "0 to 2^31", "0", "values that share a scale; 0: a tensor's"},
    [](Recipe& r, Text key, Text v) {
      levels(r).bucket_values = whole<std::size_t>(key, v, 0, 1u << 31);
    }};

Entry gennorm() {
  return {"gennorm",
          "lossy, biased, with error feedback",
          "levels of least error under a fitted generalised normal distribution",
          "Chen et al. 2021; the weight: Chen et al. 2022 (M-magnitude weighted L2)",
          [](Recipe& r) { levels(r).grid = Grid::lloyd; },
          join({{{{"grid", "lloyd, uniform", "lloyd", "where levels lie"},
                  [](Recipe& r, Text key, Text v) {
                    levels(r).grid = static_cast<Grid>(parse_word(key, v, {"lloyd", "uniform"}));
                  }},
                 {{"levels", "2 to 255", "15", "in all"},
                  [](Recipe& r, Text key, Text v) {
                    levels(r).levels = whole<unsigned>(key, v, 2, 255);
                  }},
                 {{"weight", "0 to 8", "0", "lloyd: power of a value that weighs its error"},
                  [](Recipe& r, Text key, Text v) {
                    levels(r).weight_power = whole<unsigned>(key, v, 0, 8);
                  }},
                 {{"step", "above 0 to 16", "0.25", "uniform: distance, in root mean squares"},
                  [](Recipe& r, Text key, Text v) {
                    levels(r).step = static_cast<float>(parse_number(key, v, 1e-6, 16));
                  }},
                 kLevelBucket},
                kErrors,
                kPlaces})};
}

Entry co3() {
  return {
      "co3",
      "lossy, biased, with error feedback that decays",
      "floats of a few bits with a fitted exponent bias",
      "Chen et al. 2022 (CO3)",
      [](Recipe& r) { levels(r).grid = Grid::float_bits; },
      join({{{{"exponent_bits", "1 to 7", "3", "with fraction_bits 7 at most"},
              [](Recipe& r, Text key, Text v) {
                levels(r).exponent_bits = whole<unsigned>(key, v, 1, 7);
              }},
             {{"fraction_bits", "0 to 6", "1", "of the float"},
              [](Recipe& r, Text key, Text v) {
                levels(r).fraction_bits = whole<unsigned>(key, v, 0, 6);
              }},
             {{"bias", "largest, least_error", "least_error", "how the exponent bias is fitted"},
              [](Recipe& r, Text key, Text v) {
                levels(r).bias =
                    static_cast<FloatBias>(parse_word(key, v, {"largest", "least_error"}));
              }},
             kLevelBucket,
             kFeedback,
             with_default(kDecay, "0.9"),
             kForce},
            kPlaces})};
}

Entry gcomp() {
  return {"gcomp",
          "lossy, near-lossless: a bounded relative error; no feedback",
          "fewer fraction bits the smaller a value, coded as floats",
          "GComp, near-lossless gradient compression",
          [](Recipe& r) { mantissas(r); },
          join({{{{"bits", "0 to 23", "9", "fraction bits of the largest values"},
                  [](Recipe& r, Text key, Text v) {
                    mantissas(r).top_bits = whole<unsigned>(key, v, 0, 23);
                  }},
                 {{"octaves", "0 to 255", "0", "below the largest that keep as many"},
                  [](Recipe& r, Text key, Text v) {
                    mantissas(r).top_octaves = whole<unsigned>(key, v, 0, 255);
                  }},
                 {{"slope", "0 to 23", "0.5", "bits fewer for each octave below"},
                  [](Recipe& r, Text key, Text v) {
                    mantissas(r).slope = static_cast<float>(parse_number(key, v, 0, 23));
                  }},
                 {{"fewest", "0 to 23", "3", "fraction bits of the smallest values"},
                  [](Recipe& r, Text key, Text v) {
                    mantissas(r).fewest_bits = whole<unsigned>(key, v, 0, 23);
                  }},
                 {{"prune", "0 to 255", "0", "octaves below the largest that become 0; 0: none"},
                  [](Recipe& r, Text key, Text v) {
                    mantissas(r).kept_octaves = whole<unsigned>(key, v, 0, 255);
                  }}},
                kPlaces})};
}

}  // namespace

std::vector<Entry> modelled() { return {gennorm(), co3(), gcomp()}; }

}  // namespace gradwire::lossy
