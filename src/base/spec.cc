#include "base/spec.h"

#include <algorithm>
#include <charconv>

#include "base/fail.h"
#include "base/near_names.h"

namespace gradwire {
namespace {

template <typename T>
T parse(std::string_view key, std::string_view text, const char* what) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    fail(ErrorKind::invalid_argument, "{}='{}' is no {}", key, text, what);
  return value;
}

SpecWord parse_assignment(std::string_view item) {
  const std::size_t equals = item.find('=');
  if (equals == std::string_view::npos)
    fail(ErrorKind::invalid_argument, "parameter '{}' has no value; write key=value", item);
  return {trim(item.substr(0, equals)), trim(item.substr(equals + 1))};
}

}  // namespace

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::vector<SpecWord> parse_words(std::string_view text) {
  std::vector<SpecWord> words;
  if (trim(text).empty()) return words;
  for (bool more = true; more;) {
    const std::size_t comma = text.find(',');
    more = comma != std::string_view::npos;
    const SpecWord word = parse_assignment(trim(text.substr(0, comma)));
    text.remove_prefix(more ? comma + 1 : text.size());
    if (std::ranges::find(words, word.key, &SpecWord::key) != words.end())
      fail(ErrorKind::invalid_argument, "parameter '{}' is given twice", word.key);
    words.push_back(word);
  }
  return words;
}

SpecStage parse_stage(std::string_view text) {
  const std::string_view stage = trim(text);
  const std::size_t open = stage.find('(');
  if (open == std::string_view::npos) return {stage, {}};
  if (stage.back() != ')')
    fail(ErrorKind::invalid_argument, "method '{}' does not end with ')'", text);
  return {trim(stage.substr(0, open)),
          parse_words(stage.substr(open + 1, stage.size() - open - 2))};
}

std::uint64_t parse_whole(std::string_view key, std::string_view text, std::uint64_t least,
                          std::uint64_t most) {
  const auto value = parse<std::uint64_t>(key, text, "whole number");
  if (value < least || value > most)
    fail(ErrorKind::invalid_argument, "{}: {} given, {} to {} allowed", key, value, least, most);
  return value;
}

double parse_number(std::string_view key, std::string_view text, double least, double most) {
  const auto value = parse<double>(key, text, "number");
  if (!(value >= least && value <= most))
    fail(ErrorKind::invalid_argument, "{}: {} given, {} to {} allowed", key, value, least, most);
  return value;
}

bool parse_flag(std::string_view key, std::string_view text) {
  if (text == "true" || text == "1") return true;
  if (text == "false" || text == "0") return false;
  fail(ErrorKind::invalid_argument, "{}='{}' is neither true nor false", key, text);
}

std::size_t parse_word(std::string_view key, std::string_view text,
                       const std::vector<std::string_view>& allowed) {
  const auto found = std::ranges::find(allowed, text);
  if (found == allowed.end()) fail_unknown(key, text, allowed);
  return static_cast<std::size_t>(found - allowed.begin());
}

void fail_unknown(std::string_view what, std::string_view word,
                  const std::vector<std::string_view>& known) {
  fail(ErrorKind::invalid_argument, "{} '{}' is unknown{}; known are {}", what, word,
       near_names(word, known), fmt::join(known, ", "));
}

}  // namespace gradwire
