// Methods that send a few elements.
#include "lossy/method/settings.h"

namespace gradwire::lossy {
namespace {

Entry topk() {
  return {"topk",
          "lossy, biased, with error feedback",
          "the largest magnitudes of each tensor",
          "Stich et al. 2018; Aji, Heafield 2017",
          [](Recipe& r) { r.select.selector = Selector::top_k; },
          join({{kKeep, kValues}, kErrors, kRamp, kPlaces})};
}

Entry randomk() {
  return {"randomk",
          "lossy, unbiased (or with error feedback)",
          "elements drawn by a seed that ranks share; no indices are sent",
          "Stich et al. 2018; Wangni et al. 2018",
          [](Recipe& r) { r.select.selector = Selector::random_k; },
          join({{kKeep,
                 kValues,
                 {{"unbiased", "true, false", "true", "values times n / k; not with feedback"},
                  [](Recipe& r, Text key, Text v) { r.scaled = parse_flag(key, v); }},
                 with_default(kFeedback, "false"),
                 kDecay,
                 kForce},
                kRamp,
                kPlaces})};
}

Entry threshold() {
  return {"threshold",
          "lossy, biased, with error feedback",
          "magnitudes of at least a bound",
          "Strom 2015; Dutta et al. 2020",
          [](Recipe& r) { r.select.selector = Selector::threshold; },
          join({{{{"bound", "0 or more", "0.01", "least magnitude that is sent"},
                  [](Recipe& r, Text key, Text v) {
                    r.select.threshold = parse_number(key, v, 0, 1e38);
                  }},
                 kValues},
                kErrors,
                kPlaces})};
}

Entry sidco() {
  return {"sidco",
          "lossy, biased, with error feedback",
          "magnitudes above a threshold that a fitted distribution gives",
          "Abdelmoniem et al. 2021",
          [](Recipe& r) { r.select.selector = Selector::sidco; },
          join({{with_default(kKeep, "0.001"),
                 {{"model", "exponential, pareto, gamma", "pareto", "the distribution"},
                  [](Recipe& r, Text key, Text v) {
                    r.select.model = static_cast<SidcoModel>(
                        parse_word(key, v, {"exponential", "pareto", "gamma"}));
                  }},
                 {{"stages", "1 to 32", "3", "fits of the tail, to begin with"},
                  [](Recipe& r, Text key, Text v) {
                    r.select.stages = static_cast<unsigned>(parse_whole(key, v, 1, 32));
                  }},
                 {{"bounded", "true, false", "true", "exact where a fit misses by far"},
                  [](Recipe& r, Text key, Text v) { r.select.bounded = parse_flag(key, v); }},
                 kValues},
                kErrors,
                kRamp,
                kPlaces})};
}

Entry dgc() {
  return {"dgc",
          "lossy, biased, with momentum correction; plain SGD behind it",
          "the largest accumulated updates, momentum inside",
          "Lin et al. 2018",
          [](Recipe& r) {
            r.select.selector = Selector::sampled_top_k;
            r.feedback.kind = FeedbackKind::dgc;
          },
          join({{with_default(kKeep, "0.001"),
                 with_default(kValues, "f16"),
                 {{"momentum", "0 to below 1", "0.9", "of the local accumulator; 0: none"},
                  [](Recipe& r, Text key, Text v) {
                    r.feedback.momentum = static_cast<float>(parse_number(key, v, 0, 0.999999));
                  }},
                 {{"nesterov", "true, false", "false", "Nesterov's momentum"},
                  [](Recipe& r, Text key, Text v) { r.feedback.nesterov = parse_flag(key, v); }},
                 {{"mask", "true, false", "true", "momentum stops where something was sent"},
                  [](Recipe& r, Text key, Text v) { r.feedback.mask = parse_flag(key, v); }},
                 {{"clip", "0 or more", "0", "norm of a gradient of all ranks; 0: no clipping"},
                  [](Recipe& r, Text key, Text v) {
                    r.feedback.clip_norm = static_cast<float>(parse_number(key, v, 0, 1e30));
                  }},
                 {{"exact", "true, false", "false", "exact top-k instead of the sampled one"},
                  [](Recipe& r, Text key, Text v) {
                    r.select.selector =
                        parse_flag(key, v) ? Selector::top_k : Selector::sampled_top_k;
                  }},
                 kDecay},
                kRamp,
                kPlaces})};
}

}  // namespace

std::vector<Entry> sparsifiers() { return {topk(), randomk(), threshold(), sidco(), dgc()}; }

}  // namespace gradwire::lossy
