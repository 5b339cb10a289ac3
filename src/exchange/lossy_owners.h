// A lossy mean in two shots: parts go to their owners, who add them and send the mean, coded anew.
// In: a bucket's memory, its shards, the facts of the step.
// Out: handlers for two flows; in the end the means lie in the bucket.
// Assumes: what is given by reference outlives it; both flows belong to one `Flows`.
#pragma once

#include <map>
#include <memory>

#include "exchange/flow.h"
#include "exchange/lossy_sum.h"
#include "exchange/lossy_work.h"

namespace gradwire::exchange {

using LossyShards = std::vector<std::vector<LossyPiece>>;

/// What both flows work on.
class LossyOwners {
 public:
  LossyOwners(const LossyWork& work, const std::vector<LossyPart>& tensors,
              const LossyShards& shards, unsigned rank);

  /// Lets the coders take the gradients over. Throws for one that is not finite.
  void begin();
  /// This rank's piece for an owner.
  Bytes encode(unsigned owner, std::size_t k);
  /// A piece of this rank's shard has come from a rank.
  void arrive(unsigned rank, std::size_t k, ByteSpan payload);
  /// The mean of a piece of this rank's shard, once it has come from all.
  const Bytes& mean(std::size_t k) const { return means_.at(k); }
  /// Puts means into the bucket.
  void place(const LossyPiece& piece, ByteSpan payload);
  /// Of a rank alone.
  void run_alone();

  const LossyShards& shards() const noexcept { return shards_; }
  unsigned rank() const noexcept { return rank_; }
  ExchangeStats& stats() noexcept { return work_.stats; }

 private:
  /// The runs of each tensor whose sums this rank makes.
  std::map<const lossy::TensorCoder*, std::vector<lossy::TensorCoder::Range>> owned() const;
  Bytes add_piece(const LossyPiece& piece, const PiecePayloads& payloads);

  LossyWork work_;
  const std::vector<LossyPart>& tensors_;
  const LossyShards& shards_;
  unsigned rank_;
  LossySum sum_, placed_;
  std::map<std::size_t, PiecePayloads> waiting_;
  std::map<std::size_t, Bytes> means_;
  std::vector<float> room_;
  Bytes body_;
};

class LossyToOwners final : public PieceHandler {
 public:
  explicit LossyToOwners(std::shared_ptr<LossyOwners> owners) : owners_(std::move(owners)) {}
  std::size_t pieces_to(unsigned peer) const override { return owners_->shards()[peer].size(); }
  std::size_t pieces_from(unsigned) const override { return own().size(); }
  std::size_t bound_from(unsigned, std::size_t k) const override { return own()[k].bound; }
  Bytes encode(unsigned peer, std::size_t k) override { return owners_->encode(peer, k); }
  void take(unsigned peer, std::size_t k, ByteSpan payload) override {
    owners_->arrive(peer, k, payload);
  }

 private:
  const std::vector<LossyPiece>& own() const { return owners_->shards()[owners_->rank()]; }
  std::shared_ptr<LossyOwners> owners_;
};

class LossyFromOwners final : public PieceHandler {
 public:
  explicit LossyFromOwners(std::shared_ptr<LossyOwners> owners) : owners_(std::move(owners)) {}
  std::size_t pieces_to(unsigned) const override {
    return owners_->shards()[owners_->rank()].size();
  }
  std::size_t pieces_from(unsigned peer) const override { return owners_->shards()[peer].size(); }
  std::size_t bound_from(unsigned peer, std::size_t k) const override {
    return owners_->shards()[peer][k].bound;
  }
  Bytes encode(unsigned, std::size_t k) override { return owners_->mean(k); }
  void take(unsigned peer, std::size_t k, ByteSpan payload) override {
    owners_->place(owners_->shards()[peer][k], payload);
  }

 private:
  std::shared_ptr<LossyOwners> owners_;
};

}  // namespace gradwire::exchange
