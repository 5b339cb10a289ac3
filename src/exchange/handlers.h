// Where the pieces of the exact all-reduces come from and go to.
// In: the bucket's memory, its shards, the ranks' roles, the rule of addition.
// Out: a handler for a flow.
// Assumes: what is given by reference outlives the handler.
#pragma once

#include "exchange/addition.h"
#include "exchange/flow.h"
#include "exchange/piece_coder.h"
#include "exchange/roles.h"

namespace gradwire::exchange {

/// What is whose.
struct Ownership {
  Roles roles;
  std::vector<Shard> shards;  ///< one a rank, those of mere workers empty
};

/// A bucket's memory and its coder, with the clock on them.
class BucketMemory {
 public:
  BucketMemory(PieceCoder& coder, std::uint8_t* data, ExchangeStats& stats)
      : coder_(coder), data_(data), stats_(stats) {
    stats_.groups.resize(coder.groups());
  }

  std::uint8_t* at(const Piece& piece) const;
  std::size_t bytes(const Piece& piece) const;
  std::size_t bound(const Piece& piece) const { return coder_.bound(piece); }
  /// A payload that goes to so many ranks, counted for the way of this handler.
  Bytes encode(const Piece& piece, std::size_t receivers, WayBytes ExchangeStats::* way);
  void decode(const Piece& piece, ByteSpan payload, std::uint8_t* out);

 private:
  PieceCoder& coder_;
  std::uint8_t* data_;
  ExchangeStats& stats_;
};

/// Shards to their owners, which add them.
std::unique_ptr<PieceHandler> to_owners(BucketMemory& memory, const AdditionRule& rule,
                                        const Ownership& ownership, unsigned rank);
/// Sums from their owners.
std::unique_ptr<PieceHandler> from_owners(BucketMemory& memory, const Ownership& ownership,
                                          unsigned rank);
/// Everything to everybody; each adds for itself.
std::unique_ptr<PieceHandler> to_all(BucketMemory& memory, const AdditionRule& rule,
                                     const Shard& whole, const Roles& roles, unsigned rank);

}  // namespace gradwire::exchange
