// Methods whose payloads are summed without being decoded.
#include "base/fail.h"
#include "lossy/method/settings.h"

namespace gradwire::lossy {
namespace {

void set_rotation(Recipe& recipe, Text key, Text value) {
  const std::uint64_t block = parse_whole(key, value, 0, 1u << 24);
  if (block != 0 && (block < 32 || (block & (block - 1)) != 0))
    fail(ErrorKind::invalid_argument, "{}: {} given, 0 or a power of two of 32 to 2^24 allowed",
         key, block);
  recipe.rotation = block == 0 ? std::size_t{1} << 23 : static_cast<std::size_t>(block);
}

Entry thc() {
  return {"thc",
          "lossy, unbiased but for clipping; summed by integers",
          "a random rotation, then integers of a table that ranks share",
          "Li et al. 2024 (THC)",
          [](Recipe& r) { r.way = Way::table_sum; },
          join({{{{"bits", "1 to 8", "4", "of a value's index in the table"},
                  [](Recipe& r, Text key, Text v) {
                    r.table.bits = static_cast<unsigned>(parse_whole(key, v, 1, 8));
                  }},
                 {{"top", "2^bits - 1 to 255", "31", "largest integer; times ranks at most 254"},
                  [](Recipe& r, Text key, Text v) {
                    r.table.top = static_cast<unsigned>(parse_whole(key, v, 1, 255));
                  }},
                 {{"clipped", "1e-6 to 0.5", "0.00390625", "share of values beyond the table"},
                  [](Recipe& r, Text key, Text v) {
                    r.table.clipped = parse_number(key, v, 1e-6, 0.5);
                  }},
                 {{"rotation", "0, or a power of two of 32 to 2^24", "1024",
                   "values that are rotated together and share a norm; 0: up to 2^23"},
                  set_rotation}},
                {kFeedback, kDecay},
                {kDenseBelow, kDenseVectors, kStart}})};
}

Entry lhc() {
  return {"lhc",
          "lossy, biased, with error feedback; summed exactly, by integers",
          "the largest magnitudes on a grid, added by a sketch",
          "Li et al. 2024 (lossless homomorphic compression)",
          [](Recipe& r) {
            r.way = Way::sketch_sum;
            r.select.selector = Selector::top_k;
          },
          join({{kKeep,
                 {{"bits", "2 to 24", "16", "of an integer, with its sign"},
                  [](Recipe& r, Text key, Text v) {
                    r.grid_bits = static_cast<unsigned>(parse_whole(key, v, 2, 24));
                  }},
                 {{"cells", "0, or 0.1 to 8", "1.35", "of the sketch, an element; 0: no sketch"},
                  [](Recipe& r, Text key, Text v) { r.sketch.cells = parse_number(key, v, 0, 8); }},
                 {{"block", "1 to 1024", "1", "neighbours that share a bit of the index"},
                  [](Recipe& r, Text key, Text v) {
                    r.sketch.block_values = static_cast<std::size_t>(parse_whole(key, v, 1, 1024));
                  }}},
                kErrors,
                kRamp,
                {kDenseBelow, kDenseVectors, kStart}})};
}

}  // namespace

std::vector<Entry> summed() { return {thc(), lhc()}; }

}  // namespace gradwire::lossy
