#include "exchange/reduction.h"

#include <algorithm>
#include <functional>

namespace gradwire::exchange {
namespace {

template <typename Value, typename Function>
void combine_all(std::span<std::uint8_t> total, ByteSpan values, const Function& function) {
  for (std::size_t at = 0; at + sizeof(Value) <= total.size(); at += sizeof(Value)) {
    const auto both = function(load<Value>(&total[at]), load<Value>(&values[at]));
    store(&total[at], static_cast<Value>(both));
  }
}

}  // namespace

void combine(Reduction reduction, std::span<std::uint8_t> total, ByteSpan values) {
  switch (reduction) {
    case Reduction::i32_sum:  // unsigned, so that it may wrap
      return combine_all<std::uint32_t>(total, values, std::plus<>());
    case Reduction::u8_or:
      return combine_all<std::uint8_t>(total, values, std::bit_or<>());
    case Reduction::i64_max:
      return combine_all<std::int64_t>(total, values,
                                       [](auto a, auto b) { return std::max(a, b); });
  }
}

}  // namespace gradwire::exchange
