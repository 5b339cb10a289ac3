// Methods whose messages a network makes that was trained on the gradients.
#include "lossy/method/settings.h"

namespace gradwire::lossy {
namespace {

Entry lgc() {
  return {
      "lgc",
      "lossy, biased, with error feedback; needs a network, trained on the first steps",
      "one rank's largest elements of all ranks, by a learned code",
      "Abrahamyan et al. 2021 (LGC)",
      [](Recipe& r) {
        r.way = Way::learned;
        r.select.selector = Selector::top_k;
      },
      join({{with_default(kKeep, "0.001"),
             {{"mode", "ring, server", "ring",
               "the mean of all ranks' codes is decoded, or the leader's code for all"},
              [](Recipe& r, Text key, Text v) {
                r.learned.is_ring = parse_word(key, v, {"ring", "server"}) == 0;
              }},
             {{"learn", "0 to 2^40", "300", "steps behind start on which the network is trained"},
              [](Recipe& r, Text key, Text v) { r.learned.learn = parse_whole(key, v, 0, kMany); }},
             {{"innovation", "above 0 to 1", "0.00001",
               "mode=server: share of the elements that each rank sends by themselves"},
              [](Recipe& r, Text key, Text v) {
                r.learned.innovation = parse_number(key, v, 1e-9, 1);
              }},
             with_default(kValues, "f16")},
            kErrors,
            kRamp,
            {with_default(kDenseBelow, "1024"), kDenseVectors, kStart}})};
}

}  // namespace

std::vector<Entry> learned() { return {lgc()}; }

}  // namespace gradwire::lossy
