// Methods as compositions of parts: what a spec string such as "dgc(keep=0.001)" asks for.
// In: a spec string.
// Out: a recipe: feedback, selector, quantiser, the way between ranks, and when they apply.
// Assumes: nothing of the string. The recipes' names, parameters, ranges and defaults stand in
// registry.cc and nowhere else.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "feedback/feedback.h"
#include "gradwire/methods.h"
#include "lossy/codec/code_values.h"
#include "lossy/low_rank/low_rank.h"
#include "lossy/select/select.h"
#include "lossy/sketch/sketch.h"
#include "lossy/thc/table.h"

namespace gradwire::lossy {

/// How what the ranks send becomes a mean.
enum class Way : std::uint8_t {
  gather,      ///< each rank's body goes to all, who decode and add in the order of ranks
  two_shot,    ///< to the owner of a part, who decodes, adds and codes the mean anew
  low_rank,    ///< exact means of the factors of each matrix
  table_sum,   ///< integers of a table, after a rotation, summed as they are
  sketch_sum,  ///< sparse integers on a grid, summed by a sketch
  learned,     ///< values at one rank's places, by a network's code
};

/// Of Way::learned.
struct LearnedOptions {
  bool is_ring = true;        ///< the mean of all ranks' codes is decoded; else the leader's code
  std::uint64_t learn = 300;  ///< steps behind `start` after which a network is to be there
  double innovation = 1e-5;   ///< not ring: share of the elements that a rank sends exactly
};

/// What happens to a gradient with a NaN or an infinity.
enum class NonFinite : std::uint8_t {
  refuse,  ///< an error on all ranks; nothing is lost
  pass,    ///< the tensor goes exactly in this step, feedback stays as it is
};

struct Recipe {
  std::string name;
  std::string canonical;  ///< the spec with its keys in order and defaults left out
  Way way = Way::gather;
  feedback::FeedbackOptions feedback{.kind = feedback::FeedbackKind::none};
  SelectOptions select{.selector = Selector::all};
  double keep = 1;               ///< share of the elements that are sent, once warmed up
  std::vector<double> schedule;  ///< keeps of equal parts of the warm-up, before `keep`
  std::uint64_t warmup = 0;      ///< steps of it
  std::uint64_t start = 0;       ///< steps in which all goes exactly, before all else
  ValueCoding values;
  bool scaled = false;           ///< random_k: values are times n / k, so that it is unbiased
  bool majority = false;         ///< of signs: the mean becomes its sign times the mean scale
  bool server_feedback = false;  ///< two_shot: owners keep the error of what they send back
  bool force = false;            ///< biased without feedback is no mistake
  LowRankOptions low_rank{};
  TableOptions table{};
  std::size_t rotation = 1024;  ///< table_sum: values that are rotated together, a power of two
  SketchOptions sketch{};
  LearnedOptions learned{};
  unsigned grid_bits = 16;  ///< sketch_sum: of an integer, with its sign
  NonFinite non_finite = NonFinite::refuse;
  std::uint64_t dense_below = 0;  ///< tensors of fewer elements go exactly
  bool dense_vectors = false;     ///< tensors of one dimension, or none, go exactly

  /// Share of the elements in a step, counted from 0.
  double keep_at(std::uint64_t step) const noexcept;
  bool is_dense_step(std::uint64_t step) const noexcept { return step < start; }
  /// Whether a tensor goes exactly, in all steps.
  bool is_dense(std::span<const std::uint64_t> shape) const noexcept;
};

/// Throws invalid_argument, with near names, for what is no method's name or parameter, is out of
/// range, or does not compose.
Recipe parse_recipe(std::string_view spec);

/// The same for tensors and files. Throws for a method whose messages have a meaning between ranks
/// only.
Recipe parse_file_recipe(std::string_view spec);

/// Whether a spec names a lossy method; its parameters are not looked at.
bool is_recipe(std::string_view spec) noexcept;

/// The lossy methods, for `gradwire methods`.
std::span<const Method> recipes();

}  // namespace gradwire::lossy
