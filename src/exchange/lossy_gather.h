// A lossy mean by gathering: every rank's bodies go to all, who decode and add them.
// In: a bucket's memory, its tensors' coders, the facts of the step.
// Out: a handler for a flow; in the end the means lie in the bucket.
// Assumes: what is given by reference outlives it.
#pragma once

#include <map>

#include "exchange/flow.h"
#include "exchange/lossy_sum.h"
#include "exchange/lossy_work.h"
#include "exchange/shared_payloads.h"

namespace gradwire::exchange {

class LossyGather final : public PieceHandler {
 public:
  LossyGather(const LossyWork& work, const std::vector<LossyPiece>& pieces, unsigned rank,
              unsigned world);

  std::size_t pieces_to(unsigned) const override { return pieces_.size(); }
  std::size_t pieces_from(unsigned) const override { return pieces_.size(); }
  std::size_t bound_from(unsigned, std::size_t k) const override { return pieces_[k].bound; }
  Bytes encode(unsigned peer, std::size_t k) override;
  void take(unsigned peer, std::size_t k, ByteSpan payload) override;

  /// Of a rank alone: what it would send becomes the bucket.
  void run_alone();

 private:
  Bytes encode_piece(std::size_t k);
  void encode_part(const LossyPart& part, Bytes& payload);
  void arrive(unsigned rank, std::size_t k, ByteSpan payload);
  void add_piece(const LossyPiece& piece, const PiecePayloads& payloads);

  LossyWork work_;
  const std::vector<LossyPiece>& pieces_;
  unsigned rank_, world_;
  SharedPayloads shared_;
  LossySum sum_;
  std::map<std::size_t, PiecePayloads> waiting_;
  std::vector<float> room_;
  Bytes body_;
};

}  // namespace gradwire::exchange
