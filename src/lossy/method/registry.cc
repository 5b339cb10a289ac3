#include "lossy/method/registry.h"

#include <array>
#include <iterator>

#include "base/fail.h"
#include "base/spec.h"

namespace gradwire::lossy {
namespace {

using feedback::FeedbackKind;
using Text = std::string_view;

// --- parameters that many methods have -------------------------------------------------

void set_values(Recipe& recipe, Text key, Text value) {
  const std::vector<Text> words{"f32", "f16", "bf16", "e4m3", "e5m2", "int8", "int4", "natural"};
  constexpr std::array kKinds{QuantiserKind::uniform, QuantiserKind::f16,    QuantiserKind::bf16,
                              QuantiserKind::e4m3,    QuantiserKind::e5m2,   QuantiserKind::uniform,
                              QuantiserKind::uniform, QuantiserKind::natural};
  const std::size_t word = parse_word(key, value, words);
  recipe.values.reset();
  if (word == 0) return;
  recipe.values = QuantiseOptions{.kind = kKinds[word]};
  recipe.values->levels = value == "int4" ? 7 : 127;
  recipe.values->rounding = Rounding::nearest;
}

void set_schedule(Recipe& recipe, Text key, Text value) {
  recipe.schedule.clear();
  while (!value.empty()) {
    const std::size_t slash = value.find('/');
    recipe.schedule.push_back(parse_number(key, value.substr(0, slash), 1e-9, 1));
    value.remove_prefix(slash == Text::npos ? value.size() : slash + 1);
  }
}

QuantiseOptions& quantiser(Recipe& recipe) {
  if (!recipe.values) recipe.values.emplace();
  return *recipe.values;
}

constexpr std::uint64_t kMany = std::uint64_t{1} << 40;

const Setting kKeep{{"keep", "above 0 to 1", "0.01", "share of the elements that are sent"},
                    [](Recipe& r, Text key, Text v) { r.keep = parse_number(key, v, 1e-9, 1); }};
const Setting kValues{{"values", "f32, f16, bf16, e4m3, e5m2, int8, int4, natural", "f32",
                       "how the values of sent elements are rounded"},
                      set_values};
const Setting kDenseBelow{
    {"dense_below", "0 to 2^40", "0", "tensors of fewer elements go exactly"},
    [](Recipe& r, Text key, Text v) { r.dense_below = parse_whole(key, v, 0, kMany); }};
const Setting kDenseVectors{
    {"dense_vectors", "true, false", "true", "tensors of one dimension go exactly"},
    [](Recipe& r, Text key, Text v) { r.dense_vectors = parse_flag(key, v); }};
const Setting kStart{{"start", "0 to 2^40", "0", "steps in which all goes exactly"},
                     [](Recipe& r, Text key, Text v) { r.start = parse_whole(key, v, 0, kMany); }};
const Setting kNan{{"nan", "refuse, pass", "refuse",
                    "a tensor with NaN or infinity: an error on all ranks, or sent exactly"},
                   [](Recipe& r, Text key, Text v) {
                     r.non_finite = static_cast<NonFinite>(parse_word(key, v, {"refuse", "pass"}));
                   }};
const Setting kWarmup{
    {"warmup", "0 to 2^40", "0", "steps of the schedule, behind start"},
    [](Recipe& r, Text key, Text v) { r.warmup = parse_whole(key, v, 0, kMany); }};
const Setting kSchedule{{"schedule", "shares with / between", "0.25/0.0625/0.015625/0.004",
                         "keep in equal parts of the warm-up"},
                        set_schedule};
const Setting kFeedback{{"feedback", "true, false", "true", "keep what was not sent for later"},
                        [](Recipe& r, Text key, Text v) {
                          r.feedback.kind =
                              parse_flag(key, v) ? FeedbackKind::error : FeedbackKind::none;
                        }};
const Setting kDecay{{"decay", "0 to 1", "1", "what of the error is kept a step"},
                     [](Recipe& r, Text key, Text v) {
                       r.feedback.decay = static_cast<float>(parse_number(key, v, 0, 1));
                     }};
const Setting kForce{{"force", "true, false", "false", "allow what is biased without feedback"},
                     [](Recipe& r, Text key, Text v) { r.force = parse_flag(key, v); }};
const Setting kBucket{{"bucket", "0 to 2^31", "512", "values that share a scale; 0: a tensor's"},
                      [](Recipe& r, Text key, Text v) {
                        quantiser(r).bucket_values =
                            static_cast<std::size_t>(parse_whole(key, v, 0, 1u << 31));
                      }};
const Setting kRounding{{"rounding", "random, nearest", "random", "of values between two levels"},
                        [](Recipe& r, Text key, Text v) {
                          quantiser(r).rounding =
                              static_cast<Rounding>(parse_word(key, v, {"random", "nearest"}));
                        }};

/// A parameter with another default than usual.
Setting with_default(Setting setting, Text value) {
  setting.text.default_value = value;
  return setting;
}

const std::vector<Setting> kPlaces{kDenseBelow, kDenseVectors, kStart, kNan};
const std::vector<Setting> kErrors{kFeedback, kDecay, kForce};
const std::vector<Setting> kRamp{kWarmup, kSchedule};

using Group = std::vector<Setting>;

Group join(std::initializer_list<Group> groups) {
  Group all;
  for (const Group& group : groups) std::ranges::copy(group, std::back_inserter(all));
  return all;
}

// --- sparsifiers -------------------------------------------------------------------------

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
                 kDecay},
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

// --- quantisers --------------------------------------------------------------------------

Entry qsgd() {
  return {"qsgd",
          "lossy, unbiased",
          "levels of a bucket's norm, rounded at random",
          "Alistarh et al. 2017",
          [](Recipe& r) { quantiser(r).kind = QuantiserKind::uniform; },
          join({{{{"levels", "1 to 32767", "7", "levels on each side of 0"},
                  [](Recipe& r, Text key, Text v) {
                    quantiser(r).levels = static_cast<unsigned>(parse_whole(key, v, 1, 32767));
                  }},
                 kBucket,
                 {{"norm", "max, l2", "max", "of a bucket"},
                  [](Recipe& r, Text key, Text v) {
                    quantiser(r).norm = static_cast<Norm>(parse_word(key, v, {"max", "l2"}));
                  }},
                 kRounding,
                 with_default(kFeedback, "false"),
                 kDecay,
                 kForce},
                kPlaces})};
}

Entry terngrad() {
  return {"terngrad",
          "lossy, unbiased unless clipped",
          "-N, 0 and N at random",
          "Wen et al. 2017",
          [](Recipe& r) { quantiser(r).kind = QuantiserKind::ternary; },
          join({{with_default(kBucket, "0"),
                 {{"clip", "0, or 1 or more", "2.5",
                   "root mean squares at which magnitudes are clipped; 0: none"},
                  [](Recipe& r, Text key, Text v) {
                    quantiser(r).clip_deviations = static_cast<float>(parse_number(key, v, 0, 1e6));
                  }},
                 with_default(kFeedback, "false"),
                 kDecay},
                kPlaces})};
}

Entry natural() {
  return {"natural",
          "lossy, unbiased",
          "powers of two, rounded at random",
          "Horvath et al. 2019",
          [](Recipe& r) { quantiser(r).kind = QuantiserKind::natural; },
          join({{with_default(kFeedback, "false"), kDecay}, kPlaces})};
}

void prepare_signs(Recipe& recipe, Norm norm) {
  quantiser(recipe).kind = QuantiserKind::sign;
  quantiser(recipe).norm = norm;
}

Entry sign() {
  return {"sign",
          "lossy, biased, without feedback",
          "signs, of which the majority counts, times the mean of the ranks' mean magnitudes",
          "Bernstein et al. 2018",
          [](Recipe& r) {
            prepare_signs(r, Norm::l1);
            r.majority = true;
          },
          join({{with_default(kBucket, "0")}, kPlaces})};
}

Entry efsign() {
  return {"efsign",
          "lossy, biased, with error feedback",
          "signs times the mean magnitude",
          "Karimireddy et al. 2019",
          [](Recipe& r) { prepare_signs(r, Norm::l1); },
          join({{with_default(kBucket, "0")}, kErrors, kPlaces})};
}

Entry cast() {
  return {"cast",
          "lossy, biased by a rounding",
          "narrower floats",
          "IEEE 754; Micikevicius et al. 2022",
          [](Recipe&) {},
          join({{with_default(kValues, "bf16"), kBucket, with_default(kFeedback, "false"), kDecay},
                kPlaces})};
}

}  // namespace

const std::vector<Entry>& registry() {
  static const std::vector<Entry> entries{topk(), randomk(), threshold(), sidco(),
                                          dgc(),  qsgd(),    terngrad(),  natural(),
                                          sign(), efsign(),  cast()};
  return entries;
}

}  // namespace gradwire::lossy
