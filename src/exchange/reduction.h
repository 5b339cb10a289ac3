// What an all_reduce step does with the ranks' values, for transports that do it themselves.
// In: values of two ranks, of the same size.
// Out: the first ones combined with the second, element by element.
// Assumes: whole elements. Sums may overflow where values were damaged; they wrap then.
#pragma once

#include <span>

#include "base/bytes.h"
#include "gradwire/exchange.h"

namespace gradwire::exchange {

void combine(Reduction reduction, std::span<std::uint8_t> total, ByteSpan values);

}  // namespace gradwire::exchange
