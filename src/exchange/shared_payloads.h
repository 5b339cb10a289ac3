// Payloads that go to every peer, made once.
// In: a piece's number, and what makes its payload.
// Out: the payload, for each receiver once.
// Assumes: every piece is asked for by all receivers.
#pragma once

#include <map>
#include <utility>

#include "base/bytes.h"

namespace gradwire::exchange {

class SharedPayloads {
 public:
  explicit SharedPayloads(std::size_t receivers) : receivers_(receivers) {}

  template <typename Make>
  Bytes get(std::size_t k, const Make& make) {
    auto entry = payloads_.find(k);
    if (entry == payloads_.end()) entry = payloads_.emplace(k, Payload{make(), receivers_}).first;
    if (--entry->second.left > 0) return entry->second.bytes;
    Bytes bytes = std::move(entry->second.bytes);
    payloads_.erase(entry);
    return bytes;
  }

 private:
  struct Payload {
    Bytes bytes;
    std::size_t left = 0;
  };
  std::size_t receivers_;
  std::map<std::size_t, Payload> payloads_;
};

}  // namespace gradwire::exchange
