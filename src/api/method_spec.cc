// Spec strings: "lossless(level=3,coder=ans)" to options. Grammar: docs/methods.md.
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "api/frame_access.h"
#include "base/fail.h"
#include "base/spec.h"
#include "gradwire/methods.h"
#include "gradwire/options.h"
#include "lossy/method/recipe.h"

namespace gradwire {
namespace {

using Names = std::vector<std::string_view>;

/// Names of methods, or of the parameters of one.
template <typename Table>
Names names_of(const Table& table) {
  Names names;
  for (const auto& row : table) names.push_back(row.name);
  return names;
}

Zeros parse_zeros(std::string_view key, std::string_view text) {
  constexpr std::array kZeros{Zeros::automatic, Zeros::none, Zeros::in_band, Zeros::runs,
                              Zeros::bitmap};
  return kZeros[parse_word(key, text, {"auto", "none", "in-band", "runs", "bitmap"})];
}

int parse_int(std::string_view key, std::string_view text) {
  return static_cast<int>(parse_whole(key, text, 0, 1 << 20));
}

void set_option(CompressOptions& options, std::string_view key, std::string_view value) {
  if (key == "level") {
    options.level = parse_int(key, value);
  } else if (key == "coder") {
    options.coder = parse_coder(value);
  } else if (key == "tables") {
    options.tables = parse_tables(value);
  } else if (key == "zeros") {
    options.zeros = parse_zeros(key, value);
  } else if (key == "pairs") {
    options.pairs = parse_flag(key, value);
  } else if (key == "checksum") {
    options.checksum = parse_flag(key, value);
  } else if (key == "threads") {
    options.threads = parse_int(key, value);
  } else {
    fail_unknown("parameter", key, names_of(methods().front().parameters));
  }
}

CompressOptions set_options(const std::vector<SpecWord>& words, const CompressOptions& defaults) {
  CompressOptions options = defaults;
  for (const auto& [key, value] : words) set_option(options, key, value);
  api::check_options(options);
  return options;
}

}  // namespace

CompressOptions parse_options(std::string_view text, const CompressOptions& defaults) {
  return set_options(parse_words(text), defaults);
}

CompressOptions parse_method(std::string_view spec, const CompressOptions& defaults) {
  const SpecStage stage = parse_stage(spec.substr(0, spec.find('+')));
  if (lossy::is_recipe(stage.name)) {
    fail(ErrorKind::invalid_argument,
         "method '{}' is lossy; only exact ones can be used here: lossless, none", stage.name);
  }
  parse_word("method", stage.name, names_of(methods()));
  if (spec.find('+') != std::string_view::npos) {
    fail(ErrorKind::invalid_argument, "method '{}': {} stands alone, nothing can be added to it",
         spec, stage.name);
  }
  if (stage.name == "lossless") return set_options(stage.words, defaults);
  if (!stage.words.empty()) {
    fail(ErrorKind::invalid_argument, "method '{}' takes no parameters", stage.name);
  }
  CompressOptions options = defaults;
  options.coder = Coder::stored;
  return options;
}

}  // namespace gradwire
