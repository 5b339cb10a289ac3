// Parameters that several methods have.
// In: a recipe and the text of a value.
// Out: the recipe with it.
// Assumes: quantisers are set by `prepare` before their parameters are.
#pragma once

#include <algorithm>
#include <iterator>

#include "base/spec.h"
#include "lossy/method/registry.h"

namespace gradwire::lossy {

using feedback::FeedbackKind;
using Text = std::string_view;

void set_values(Recipe& recipe, Text key, Text value);
void set_schedule(Recipe& recipe, Text key, Text value);
/// The recipe's quantiser, made if it has none.
QuantiseOptions& quantiser(Recipe& recipe);

inline constexpr std::uint64_t kMany = std::uint64_t{1} << 40;

inline constexpr Setting kKeep{
    {"keep", "above 0 to 1", "0.01", "share of the elements that are sent"},
    [](Recipe& r, Text key, Text v) { r.keep = parse_number(key, v, 1e-9, 1); }};
inline constexpr Setting kValues{{"values", "f32, f16, bf16, e4m3, e5m2, int8, int4, natural",
                                  "f32", "how the values of sent elements are rounded"},
                                 set_values};
inline constexpr Setting kDenseBelow{
    {"dense_below", "0 to 2^40", "0", "tensors of fewer elements go exactly"},
    [](Recipe& r, Text key, Text v) { r.dense_below = parse_whole(key, v, 0, kMany); }};
inline constexpr Setting kDenseVectors{
    {"dense_vectors", "true, false", "true", "tensors of one dimension go exactly"},
    [](Recipe& r, Text key, Text v) { r.dense_vectors = parse_flag(key, v); }};
inline constexpr Setting kStart{
    {"start", "0 to 2^40", "0", "steps in which all goes exactly"},
    [](Recipe& r, Text key, Text v) { r.start = parse_whole(key, v, 0, kMany); }};
inline constexpr Setting kNan{
    {"nan", "refuse, pass", "refuse",
     "a tensor with NaN or infinity: an error on all ranks, or sent exactly"},
    [](Recipe& r, Text key, Text v) {
      r.non_finite = static_cast<NonFinite>(parse_word(key, v, {"refuse", "pass"}));
    }};
inline constexpr Setting kWarmup{
    {"warmup", "0 to 2^40", "0", "steps of the schedule, behind start"},
    [](Recipe& r, Text key, Text v) { r.warmup = parse_whole(key, v, 0, kMany); }};
inline constexpr Setting kSchedule{
    {"schedule", "shares with / between", "0.25/0.0625/0.015625/0.004",
     "keep in equal parts of the warm-up"},
    set_schedule};
inline constexpr Setting kFeedback{
    {"feedback", "true, false", "true", "keep what was not sent for later"},
    [](Recipe& r, Text key, Text v) {
      r.feedback.kind = parse_flag(key, v) ? FeedbackKind::error : FeedbackKind::none;
    }};
inline constexpr Setting kDecay{{"decay", "0 to 1", "1", "what of the error is kept a step"},
                                [](Recipe& r, Text key, Text v) {
                                  r.feedback.decay = static_cast<float>(parse_number(key, v, 0, 1));
                                }};
inline constexpr Setting kForce{
    {"force", "true, false", "false", "allow what is biased without feedback"},
    [](Recipe& r, Text key, Text v) { r.force = parse_flag(key, v); }};
inline constexpr Setting kBucket{
    {"bucket", "0 to 2^31", "512", "values that share a scale; 0: a tensor's"},
    [](Recipe& r, Text key, Text v) {
      const std::uint64_t values = parse_whole(key, v, 0, 1u << 31);
      if (auto* options = std::get_if<QuantiseOptions>(&r.values))  // exact ones have no scales
        options->bucket_values = static_cast<std::size_t>(values);
    }};
inline constexpr Setting kRounding{
    {"rounding", "random, nearest", "random", "of values between two levels"},
    [](Recipe& r, Text key, Text v) {
      quantiser(r).rounding = static_cast<Rounding>(parse_word(key, v, {"random", "nearest"}));
    }};

inline constexpr Setting kWay{
    {"way", "gather, two_shot", "gather", "to all ranks, or to an owner who codes the mean anew"},
    [](Recipe& r, Text key, Text v) {
      r.way = static_cast<Way>(parse_word(key, v, {"gather", "two_shot"}));
    }};

/// A parameter with another default than usual.
inline Setting with_default(Setting setting, Text value) {
  setting.text.default_value = value;
  return setting;
}

inline const std::vector<Setting> kPlaces{kDenseBelow, kDenseVectors, kStart, kNan};
inline const std::vector<Setting> kErrors{kFeedback, kDecay, kForce};
inline const std::vector<Setting> kRamp{kWarmup, kSchedule};

using Group = std::vector<Setting>;

inline Group join(std::initializer_list<Group> groups) {
  Group all;
  for (const Group& group : groups) std::ranges::copy(group, std::back_inserter(all));
  return all;
}

// The table's parts.
std::vector<Entry> sparsifiers();
std::vector<Entry> quantisers();
std::vector<Entry> factorisers();
std::vector<Entry> summed();
std::vector<Entry> learned();
std::vector<Entry> modelled();

}  // namespace gradwire::lossy
