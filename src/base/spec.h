// One stage of a spec string, such as "topk(keep=0.01,values=f32)", cut into words.
// In: the text.
// Out: a name, and keys with values, in order; none is looked up here.
// Assumes: nothing of the text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gradwire {

struct SpecWord {
  std::string_view key, value;
};

struct SpecStage {
  std::string_view name;
  std::vector<SpecWord> words;
};

/// Blanks around words do not count. Throws invalid_argument for what is no stage: brackets that do
/// not match, a parameter without a value, a key that is given twice.
SpecStage parse_stage(std::string_view text);

/// "key=value,key=value" alone.
std::vector<SpecWord> parse_words(std::string_view text);

std::string_view trim(std::string_view text);

// Values. All throw invalid_argument and name the key.
std::uint64_t parse_whole(std::string_view key, std::string_view text, std::uint64_t least,
                          std::uint64_t most);
double parse_number(std::string_view key, std::string_view text, double least, double most);
bool parse_flag(std::string_view key, std::string_view text);
/// The place of a word in a list.
std::size_t parse_word(std::string_view key, std::string_view text,
                       const std::vector<std::string_view>& allowed);

/// "what 'word' is unknown; did you mean ...? known are a, b".
[[noreturn]] void fail_unknown(std::string_view what, std::string_view word,
                               const std::vector<std::string_view>& known);

}  // namespace gradwire
