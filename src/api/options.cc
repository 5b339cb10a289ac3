#include "gradwire/options.h"

#include <array>
#include <utility>

#include "base/fail.h"

namespace gradwire {
namespace {

template <typename T, std::size_t N>
T parse(const char* what, std::string_view name,
        const std::array<std::pair<std::string_view, T>, N>& known) {
  std::string names;
  for (const auto& [word, value] : known) {
    if (word == name) return value;
    names += names.empty() ? "" : ", ";
    names += word;
  }
  fail(ErrorKind::invalid_argument, "{} '{}' is unknown; known are {}", what, name, names);
}

}  // namespace

Coder parse_coder(std::string_view name) {
  using Pair = std::pair<std::string_view, Coder>;
  return parse<Coder>(
      "coder", name,
      std::array<Pair, 4>{Pair{"auto", Coder::automatic}, Pair{"huffman", Coder::huffman},
                          Pair{"ans", Coder::ans}, Pair{"stored", Coder::stored}});
}

Tables parse_tables(std::string_view name) {
  using Pair = std::pair<std::string_view, Tables>;
  return parse<Tables>(
      "tables", name,
      std::array<Pair, 4>{Pair{"hybrid", Tables::hybrid}, Pair{"dynamic", Tables::dynamic},
                          Pair{"static", Tables::fixed}, Pair{"gennorm", Tables::gennorm}});
}

}  // namespace gradwire
