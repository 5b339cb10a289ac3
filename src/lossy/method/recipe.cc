#include "lossy/method/recipe.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "base/fail.h"
#include "base/spec.h"
#include "lossy/method/registry.h"

namespace gradwire::lossy {
namespace {

const Entry* find_entry(std::string_view name) noexcept {
  const auto& entries = registry();
  const auto found = std::ranges::find(entries, name, &Entry::name);
  return found == entries.end() ? nullptr : &*found;
}

const Setting& find_setting(const Entry& entry, std::string_view key) {
  std::vector<std::string_view> known;
  for (const Setting& setting : entry.settings) {
    if (setting.text.name == key) return setting;
    known.push_back(setting.text.name);
  }
  fail_unknown(formatted("{}: parameter", entry.name), key, known);
}

/// "0.010" and "0.01" are the same number.
std::string normal_form(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc{} && end == text.data() + text.size()) return formatted("{}", number);
  if (text == "fp16") return "f16";
  return std::string(text);
}

std::string canonical_form(const Entry& entry, const std::vector<SpecWord>& words) {
  std::map<std::string_view, std::string> kept;
  for (const auto& [key, value] : words) {
    std::string form = normal_form(value);
    const std::string_view usual = find_setting(entry, key).text.default_value;
    const bool is_flag = usual == "true" || usual == "false";
    if (is_flag) form = parse_flag(key, value) ? "true" : "false";
    if (form != normal_form(usual)) kept.emplace(key, std::move(form));
  }
  std::string text;
  for (const auto& [key, value] : kept)
    text += formatted("{}{}={}", text.empty() ? "" : ",", key, value);
  return text.empty() ? std::string(entry.name) : formatted("{}({})", entry.name, text);
}

/// Entries are distinct, so that the largest is the number of steps between them at least.
void check_table(const TableOptions& table) {
  if (table.top + 1 >= 1u << table.bits) return;
  fail(ErrorKind::invalid_argument, "top: {} given, at least {} needed for {} bits", table.top,
       (1u << table.bits) - 1, table.bits);
}

/// Whether the mean over draws of what is sent is another than the values. Floats of fewer bits do
/// not count, nor does what is clipped.
bool is_biased(const Recipe& recipe) {
  if (recipe.way == Way::low_rank || std::holds_alternative<GennormOptions>(recipe.values))
    return true;
  if (recipe.select.selector != Selector::all && !recipe.scaled) return true;
  const auto* quantiser = std::get_if<QuantiseOptions>(&recipe.values);
  if (quantiser == nullptr) return false;
  return quantiser->kind == QuantiserKind::sign ||
         (quantiser->kind == QuantiserKind::uniform && quantiser->rounding == Rounding::nearest);
}

/// What composes and what does not: see docs/methods.md.
void check_recipe(const Recipe& recipe) {
  using feedback::FeedbackKind;
  const bool has_feedback = recipe.feedback.kind != FeedbackKind::none;
  if (recipe.scaled && has_feedback)
    fail(ErrorKind::invalid_argument,
         "{}: unbiased=true and feedback do not go together: values that are scaled up for what is "
         "left out would be sent again as its error",
         recipe.name);
  if (is_biased(recipe) && !has_feedback && !recipe.force)
    fail(ErrorKind::invalid_argument,
         "{}: what is sent is biased, and without feedback what is left out is lost; force=true "
         "does it all the same",
         recipe.name);
  if (recipe.way == Way::table_sum) check_table(recipe.table);
  if (recipe.way == Way::sketch_sum) check_options(recipe.sketch);
  feedback::check_options(recipe.feedback);
  check_coding(recipe.values);
}

}  // namespace

double Recipe::keep_at(std::uint64_t step) const noexcept {
  const std::uint64_t after = step - std::min(step, start);
  if (after >= warmup || schedule.empty()) return keep;
  const auto place = static_cast<std::size_t>(after * schedule.size() / warmup);
  return std::max(schedule[place], keep);
}

bool Recipe::is_dense(std::span<const std::uint64_t> shape) const noexcept {
  std::uint64_t n = 1;
  for (const std::uint64_t dim : shape) n *= dim;
  if (way == Way::low_rank && lossy::is_dense(shape, low_rank)) return true;
  return n < dense_below || (dense_vectors && shape.size() < 2) || n == 0;
}

Recipe parse_recipe(std::string_view spec) {
  const SpecStage stage = parse_stage(spec);
  const Entry* entry = find_entry(stage.name);
  if (entry == nullptr) {
    std::vector<std::string_view> known;
    for (const Entry& one : registry()) known.push_back(one.name);
    fail_unknown("method", stage.name, known);
  }
  Recipe recipe;
  recipe.name = entry->name;
  entry->prepare(recipe);
  for (const Setting& setting : entry->settings)
    setting.set(recipe, setting.text.name, setting.text.default_value);
  for (const SpecWord& word : stage.words) find_setting(*entry, word.key);
  for (const Setting& setting : entry->settings) {  // in the table's order, whatever the spec's
    const auto given = std::ranges::find(stage.words, setting.text.name, &SpecWord::key);
    if (given != stage.words.end()) setting.set(recipe, given->key, given->value);
  }
  recipe.canonical = canonical_form(*entry, stage.words);
  check_recipe(recipe);
  return recipe;
}

Recipe parse_file_recipe(std::string_view spec) {
  Recipe recipe = parse_recipe(spec);
  if (recipe.way == Way::gather || recipe.way == Way::two_shot) return recipe;
  fail(ErrorKind::invalid_argument,
       "{}: what it sends has a meaning between ranks only, not in a file", recipe.name);
}

bool is_recipe(std::string_view spec) noexcept {
  return find_entry(trim(spec.substr(0, spec.find_first_of("(+")))) != nullptr;
}

std::span<const Method> recipes() {
  static const auto lists = [] {
    std::vector<std::vector<MethodParameter>> all;
    for (const Entry& entry : registry()) {
      all.emplace_back();
      for (const Setting& setting : entry.settings) all.back().push_back(setting.text);
    }
    return all;
  }();
  static const auto methods = [] {
    std::vector<Method> all;
    for (std::size_t i = 0; i < lists.size(); ++i) {
      const Entry& entry = registry()[i];
      all.push_back({entry.name, entry.traits, entry.summary, entry.source, lists[i]});
    }
    return all;
  }();
  return methods;
}

}  // namespace gradwire::lossy
