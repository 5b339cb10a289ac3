// The table of methods. Ids are the order; a method that is only read any more stays listed.

#include "gradwire/methods.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "lossy/method/recipe.h"

namespace gradwire {
namespace {

constexpr std::array<MethodParameter, 7> kLossless{{
    {"level", "1 to 3", "2",
     "1 exponents as they are, 2 scales and signs predicted, 3 values predicted"},
    {"coder", "auto, huffman, ans, stored", "auto", "entropy coder of symbols"},
    {"tables", "hybrid, dynamic, static, gennorm", "hybrid", "where code tables come from"},
    {"zeros", "auto, none, in-band, runs, bitmap", "auto", "how zeros are located"},
    {"pairs", "true, false", "true", "allow joint codes of neighbours"},
    {"checksum", "true, false", "true", "XXH3-64 over headers and decoded chunks"},
    {"threads", "1 to 1024", "1", "chunks are shared out; the bytes do not depend on it"},
}};

constexpr std::array<Method, 2> kExact{{
    {"lossless", "exact", "every bit comes back",
     "docs/format.md; docs/methods.md names the papers", kLossless},
    {"none", "exact", "stored as it is, framed and checked", "docs/format.md 2.2", {}},
}};

}  // namespace

std::span<const Method> methods() {
  static const auto all = [] {
    std::vector<Method> list(kExact.begin(), kExact.end());
    std::ranges::copy(lossy::recipes(), std::back_inserter(list));
    return list;
  }();
  return all;
}

}  // namespace gradwire
