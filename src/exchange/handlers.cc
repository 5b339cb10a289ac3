#include "exchange/handlers.h"

#include <map>

#include "exchange/shared_payloads.h"
#include "exchange/timer.h"

namespace gradwire::exchange {
namespace {

std::uint64_t first_of(const Piece& piece) { return piece.parts.front().first; }

/// Values of one shard from all workers, piece by piece, added as soon as all are there.
class ShardSum {
 public:
  ShardSum(BucketMemory& memory, const AdditionRule& rule, const Shard& shard, const Roles& roles,
           unsigned rank)
      : memory_(memory), rule_(rule), shard_(shard), roles_(roles), rank_(rank) {}

  void take(unsigned peer, std::size_t k, ByteSpan payload) {
    const Piece& piece = shard_[k];
    Waiting& waiting = waiting_[k];
    waiting.values.resize(rule_.world);
    Bytes& came = waiting.values[roles_.place_of(peer)];
    came.resize(memory_.bytes(piece));
    memory_.decode(piece, payload, came.data());
    if (++waiting.arrived < roles_.other_workers(rank_)) return;
    std::vector<const std::uint8_t*> pointers;
    for (const Bytes& values : waiting.values) pointers.push_back(values.data());
    if (roles_.works(rank_)) pointers[roles_.place_of(rank_)] = memory_.at(piece);
    add_values(rule_, first_of(piece), pointers, static_cast<std::size_t>(piece.elements),
               memory_.at(piece));
    waiting_.erase(k);
  }

 private:
  struct Waiting {
    std::vector<Bytes> values;  ///< by worker; this rank's are in the bucket
    unsigned arrived = 0;
  };
  BucketMemory& memory_;
  const AdditionRule& rule_;
  const Shard& shard_;
  const Roles& roles_;
  unsigned rank_;
  std::map<std::size_t, Waiting> waiting_;
};

class ToOwners final : public PieceHandler {
 public:
  ToOwners(BucketMemory& memory, const AdditionRule& rule, const Ownership& ownership,
           unsigned rank)
      : memory_(memory),
        shards_(ownership.shards),
        roles_(ownership.roles),
        rank_(rank),
        own_(shards_[rank]),
        sum_(memory, rule, own_, roles_, rank) {}
  std::size_t pieces_to(unsigned peer) const override {
    return roles_.works(rank_) ? shards_[peer].size() : 0;
  }
  std::size_t pieces_from(unsigned peer) const override {
    return roles_.works(peer) ? own_.size() : 0;
  }
  std::size_t bound_from(unsigned, std::size_t k) const override { return memory_.bound(own_[k]); }
  Bytes encode(unsigned peer, std::size_t k) override {
    return memory_.encode(shards_[peer][k], 1, &ExchangeStats::to_owners);
  }
  void take(unsigned peer, std::size_t k, ByteSpan payload) override {
    sum_.take(peer, k, payload);
  }

 private:
  BucketMemory& memory_;
  const std::vector<Shard>& shards_;
  const Roles& roles_;
  unsigned rank_;
  const Shard& own_;
  ShardSum sum_;
};

class FromOwners final : public PieceHandler {
 public:
  FromOwners(BucketMemory& memory, const Ownership& ownership, unsigned rank)
      : memory_(memory),
        shards_(ownership.shards),
        roles_(ownership.roles),
        rank_(rank),
        own_(shards_[rank]),
        receivers_(roles_.other_workers(rank)),
        payloads_(receivers_) {}
  std::size_t pieces_to(unsigned peer) const override {
    return roles_.works(peer) ? own_.size() : 0;
  }
  std::size_t pieces_from(unsigned peer) const override {
    return roles_.works(rank_) ? shards_[peer].size() : 0;
  }
  std::size_t bound_from(unsigned peer, std::size_t k) const override {
    return memory_.bound(shards_[peer][k]);
  }
  Bytes encode(unsigned, std::size_t k) override {
    return payloads_.get(
        k, [&] { return memory_.encode(own_[k], receivers_, &ExchangeStats::from_owners); });
  }
  void take(unsigned peer, std::size_t k, ByteSpan payload) override {
    const Piece& piece = shards_[peer][k];
    memory_.decode(piece, payload, memory_.at(piece));
  }

 private:
  BucketMemory& memory_;
  const std::vector<Shard>& shards_;
  const Roles& roles_;
  unsigned rank_;
  const Shard& own_;
  std::size_t receivers_;
  SharedPayloads payloads_;
};

class ToAll final : public PieceHandler {
 public:
  ToAll(BucketMemory& memory, const AdditionRule& rule, const Shard& whole, const Roles& roles,
        unsigned rank)
      : memory_(memory),
        whole_(whole),
        receivers_(rule.world - 1),
        payloads_(receivers_),
        sum_(memory, rule, whole, roles, rank) {}
  std::size_t pieces_to(unsigned) const override { return whole_.size(); }
  std::size_t pieces_from(unsigned) const override { return whole_.size(); }
  std::size_t bound_from(unsigned, std::size_t k) const override {
    return memory_.bound(whole_[k]);
  }
  Bytes encode(unsigned, std::size_t k) override {
    return payloads_.get(
        k, [&] { return memory_.encode(whole_[k], receivers_, &ExchangeStats::to_owners); });
  }
  void take(unsigned peer, std::size_t k, ByteSpan payload) override {
    sum_.take(peer, k, payload);
  }

 private:
  BucketMemory& memory_;
  const Shard& whole_;
  std::size_t receivers_;
  SharedPayloads payloads_;
  ShardSum sum_;
};

}  // namespace

std::uint8_t* BucketMemory::at(const Piece& piece) const {
  return data_ + first_of(piece) * coder_.width();
}

std::size_t BucketMemory::bytes(const Piece& piece) const {
  return static_cast<std::size_t>(piece.elements) * coder_.width();
}

Bytes BucketMemory::encode(const Piece& piece, std::size_t receivers,
                           WayBytes ExchangeStats::* way) {
  const Timer timer(stats_.encode_s);
  Bytes payload;
  coder_.encode(piece, at(piece), receivers, payload, stats_.groups);
  (stats_.*way).original += receivers * bytes(piece);
  return payload;
}

void BucketMemory::decode(const Piece& piece, ByteSpan payload, std::uint8_t* out) {
  const Timer timer(stats_.decode_s);
  coder_.decode(piece, payload, out);
}

std::unique_ptr<PieceHandler> to_owners(BucketMemory& memory, const AdditionRule& rule,
                                        const Ownership& ownership, unsigned rank) {
  return std::make_unique<ToOwners>(memory, rule, ownership, rank);
}

std::unique_ptr<PieceHandler> from_owners(BucketMemory& memory, const Ownership& ownership,
                                          unsigned rank) {
  return std::make_unique<FromOwners>(memory, ownership, rank);
}

std::unique_ptr<PieceHandler> to_all(BucketMemory& memory, const AdditionRule& rule,
                                     const Shard& whole, const Roles& roles, unsigned rank) {
  return std::make_unique<ToAll>(memory, rule, whole, roles, rank);
}

}  // namespace gradwire::exchange
