// The table of methods.
// In: nothing.
// Out: each method's parameters with their setters, and the recipe it starts from.
// Assumes: setters check what they are given.
#pragma once

#include "lossy/method/recipe.h"

namespace gradwire::lossy {

struct Setting {
  MethodParameter text;
  void (*set)(Recipe& recipe, std::string_view key, std::string_view value);
};

struct Entry {
  std::string_view name, traits, summary, source;
  /// What no parameter says.
  void (*prepare)(Recipe& recipe);
  std::vector<Setting> settings;
};

const std::vector<Entry>& registry();

}  // namespace gradwire::lossy
