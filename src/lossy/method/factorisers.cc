// Methods that send thin factors of each matrix.
#include "lossy/method/settings.h"

namespace gradwire::lossy {
namespace {

template <LowRankKind kind>
void prepare(Recipe& recipe) {
  recipe.way = Way::low_rank;
  recipe.low_rank.kind = kind;
}

std::vector<Setting> settings() {
  return join(
      {{{{"matrix_rank", "1 to 256", "4", "columns of a factor"},
         [](Recipe& r, Text key, Text v) {
           r.low_rank.matrix_rank = static_cast<unsigned>(parse_whole(key, v, 1, 256));
         }},
        {{"min_compression", "0 or more", "2", "matrices that would shrink less go exactly"},
         [](Recipe& r, Text key, Text v) {
           r.low_rank.min_compression = static_cast<float>(parse_number(key, v, 0, 1e9));
         }}},
       kErrors,
       {kDenseBelow, kStart}});
}

Entry powersgd() {
  return {"powersgd",
          "lossy, biased, with error feedback",
          "two factors of each matrix, one after the other",
          "Vogels et al. 2019",
          prepare<LowRankKind::powersgd>,
          settings()};
}

Entry acpsgd() {
  return {"acpsgd",
          "lossy, biased, with error feedback",
          "one factor of each matrix a step, in turns",
          "Zhang et al. 2023",
          prepare<LowRankKind::acpsgd>,
          settings()};
}

}  // namespace

std::vector<Entry> factorisers() { return {powersgd(), acpsgd()}; }

}  // namespace gradwire::lossy
