#include "lossy/method/registry.h"

#include <array>

#include "lossy/method/settings.h"

namespace gradwire::lossy {

void set_values(Recipe& recipe, Text key, Text value) {
  const std::vector<Text> words{"f32", "f16", "bf16", "e4m3", "e5m2", "int8", "int4", "natural"};
  constexpr std::array kKinds{QuantiserKind::uniform, QuantiserKind::f16,    QuantiserKind::bf16,
                              QuantiserKind::e4m3,    QuantiserKind::e5m2,   QuantiserKind::uniform,
                              QuantiserKind::uniform, QuantiserKind::natural};
  if (value == "fp16") value = "f16";  // as PyTorch's users say
  const std::size_t word = parse_word(key, value, words);
  recipe.values = ExactValues();
  if (word == 0) return;
  recipe.values = QuantiseOptions{
      .kind = kKinds[word], .levels = value == "int4" ? 7u : 127u, .rounding = Rounding::nearest};
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
  if (!std::holds_alternative<QuantiseOptions>(recipe.values)) recipe.values = QuantiseOptions();
  return std::get<QuantiseOptions>(recipe.values);
}

const std::vector<Entry>& registry() {
  static const std::vector<Entry> entries = [] {
    std::vector<Entry> all;
    for (const auto& part :
         {sparsifiers(), quantisers(), factorisers(), modelled(), summed(), learned()})
      std::ranges::copy(part, std::back_inserter(all));
    return all;
  }();
  return entries;
}

}  // namespace gradwire::lossy
