// Spec strings: "lossless(level=3,coder=ans)" to options. Grammar: docs/methods.md.
#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/frame_access.h"
#include "api/near_names.h"
#include "base/fail.h"
#include "gradwire/methods.h"
#include "gradwire/options.h"

namespace gradwire {
namespace {

using Names = std::vector<std::string_view>;

constexpr std::array<std::pair<std::string_view, Zeros>, 5> kZeros{{{"auto", Zeros::automatic},
                                                                    {"none", Zeros::none},
                                                                    {"in-band", Zeros::in_band},
                                                                    {"runs", Zeros::runs},
                                                                    {"bitmap", Zeros::bitmap}}};

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// Names of methods, or of the parameters of one.
template <typename Table>
Names names_of(const Table& table) {
  Names names;
  for (const auto& row : table) names.push_back(row.name);
  return names;
}

std::string join(const Names& names) {
  std::string text;
  for (const std::string_view name : names) {
    text += text.empty() ? "" : ", ";
    text += name;
  }
  return text;
}

[[noreturn]] void fail_unknown(std::string_view what, std::string_view word, const Names& known) {
  fail(ErrorKind::invalid_argument, "{} '{}' is unknown{}; known are {}", what, word,
       near_names(word, known), join(known));
}

int parse_int(std::string_view key, std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    fail(ErrorKind::invalid_argument, "{}='{}' is no whole number", key, text);
  }
  return value;
}

bool parse_bool(std::string_view key, std::string_view text) {
  if (text == "true" || text == "1") return true;
  if (text == "false" || text == "0") return false;
  fail(ErrorKind::invalid_argument, "{}='{}' is neither true nor false", key, text);
}

Zeros parse_zeros(std::string_view text) {
  Names names;
  for (const auto& [name, zeros] : kZeros) {
    if (name == text) return zeros;
    names.push_back(name);
  }
  fail_unknown("zeros", text, names);
}

void set_option(CompressOptions& options, std::string_view key, std::string_view value) {
  if (key == "level") {
    options.level = parse_int(key, value);
  } else if (key == "coder") {
    options.coder = parse_coder(value);
  } else if (key == "tables") {
    options.tables = parse_tables(value);
  } else if (key == "zeros") {
    options.zeros = parse_zeros(value);
  } else if (key == "pairs") {
    options.pairs = parse_bool(key, value);
  } else if (key == "checksum") {
    options.checksum = parse_bool(key, value);
  } else if (key == "threads") {
    options.threads = parse_int(key, value);
  } else {
    fail_unknown("parameter", key, names_of(methods().front().parameters));
  }
}

}  // namespace

CompressOptions parse_options(std::string_view text, const CompressOptions& defaults) {
  CompressOptions options = defaults;
  if (trim(text).empty()) return options;
  std::string seen = ",";
  for (bool more = true; more;) {
    const std::size_t comma = text.find(',');
    more = comma != std::string_view::npos;
    const std::string_view item = trim(text.substr(0, comma));
    text.remove_prefix(more ? comma + 1 : text.size());
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) {
      fail(ErrorKind::invalid_argument, "parameter '{}' has no value; write key=value", item);
    }
    const std::string_view key = trim(item.substr(0, equals));
    set_option(options, key, trim(item.substr(equals + 1)));
    const std::string mark = std::string(key) + ",";
    if (seen.find("," + mark) != std::string::npos) {
      fail(ErrorKind::invalid_argument, "parameter '{}' is given twice", key);
    }
    seen += mark;
  }
  api::check_options(options);
  return options;
}

CompressOptions parse_method(std::string_view spec, const CompressOptions& defaults) {
  const std::string_view stage = trim(spec);
  const std::size_t open = stage.find('(');
  const std::size_t plus = stage.find('+');
  const std::string_view name = trim(stage.substr(0, std::min(open, plus)));
  const Names known = names_of(methods());
  if (std::ranges::find(known, name) == known.end()) fail_unknown("method", name, known);
  if (plus != std::string_view::npos) {
    fail(ErrorKind::invalid_argument, "method '{}': {} stands alone, nothing can be added to it",
         spec, name);
  }
  std::string_view parameters;
  if (open != std::string_view::npos) {
    if (stage.back() != ')') {
      fail(ErrorKind::invalid_argument, "method '{}' does not end with ')'", spec);
    }
    parameters = stage.substr(open + 1, stage.size() - open - 2);
  }
  if (name == "lossless") return parse_options(parameters, defaults);
  if (!trim(parameters).empty()) {
    fail(ErrorKind::invalid_argument, "method '{}' takes no parameters", name);
  }
  CompressOptions options = defaults;
  options.coder = Coder::stored;
  return options;
}

}  // namespace gradwire
