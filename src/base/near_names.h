// Known names that look like an unknown one, for error messages.
// In: the word that was not found, and the words that are known.
// Out: a phrase such as " (did you mean 'lossless'?)", or "" when nothing is near.
// Assumes: a handful to some thousands of short names; the cost is names x length squared.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace gradwire {

/// At most three names within a third of the word's length in edits, nearest first.
std::string near_names(std::string_view word, std::span<const std::string_view> known);

}  // namespace gradwire
