// Sums of what exchanges have sent.
// In: bytes of one way.
// Out: the total with them.
// Assumes: nothing.
#pragma once

#include "gradwire/exchange.h"

namespace gradwire::exchange {

inline void add(WayBytes& total, const WayBytes& bytes) noexcept {
  total.original += bytes.original;
  total.payload += bytes.payload;
  total.headers += bytes.headers;
  total.padding += bytes.padding;
}

}  // namespace gradwire::exchange
