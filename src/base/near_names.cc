#include "base/near_names.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace gradwire {
namespace {

/// Insertions, deletions and replacements that turn one word into the other (Levenshtein).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string near_names(std::string_view word, std::span<const std::string_view> known) {
  constexpr std::size_t kMaxWordLength = 256;  // longer ones are no misspelt names
  constexpr std::size_t kMaxNames = 3;
  if (word.empty() || word.size() > kMaxWordLength) return "";
  const std::size_t allowed = std::max<std::size_t>(1, word.size() / 3);
  std::vector<std::pair<std::size_t, std::string_view>> near;
  for (const std::string_view name : known) {
    if (name.size() > word.size() + allowed || word.size() > name.size() + allowed) continue;
    const std::size_t distance = edit_distance(word, name);
    if (distance <= allowed) near.emplace_back(distance, name);
  }
  std::ranges::stable_sort(near, {}, &std::pair<std::size_t, std::string_view>::first);
  if (near.size() > kMaxNames) near.resize(kMaxNames);
  std::string phrase;
  for (const auto& [distance, name] : near) {
    phrase += phrase.empty() ? " (did you mean '" : "' or '";
    phrase += name;
  }
  return phrase.empty() ? phrase : phrase + "'?)";
}

}  // namespace gradwire
