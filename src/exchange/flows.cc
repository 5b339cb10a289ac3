#include "exchange/flows.h"

#include <algorithm>

#include "base/fail.h"

namespace gradwire::exchange {
namespace {

/// Message m of the way back is posted behind message m + kLag - 1 of the way there: its header
/// announces lengths up to message m + 4, so that those pieces must have been added, and four
/// messages are still on their way.
constexpr std::size_t kLag = 10;

}  // namespace

void Flows::add(const FlowShape& shape, std::unique_ptr<PieceHandler> handler, Rooms& rooms,
                WayBytes ExchangeStats::* way) {
  handlers_.push_back(std::move(handler));
  flows_.emplace_back(shape, *handlers_.back(), rooms, failure_, stats_.*way);
}

std::optional<ExchangeStep> Flows::next() {
  if (done()) return std::nullopt;
  const std::size_t at = due();
  if (at == 1 && !is_added(flows_[1].posted() + kAhead)) return std::nullopt;
  std::optional<ExchangeStep> step = flows_[at].next(completed_ + in_flight_.size());
  if (step) in_flight_.push_back(at);
  return step;
}

void Flows::complete(std::uint64_t id, std::span<const std::uint8_t> received) {
  if (done() || id != completed_ || in_flight_.empty()) {
    fail(ErrorKind::invalid_argument, "step {} completed; steps {} to {} are in flight", id,
         completed_, completed_ + in_flight_.size());
  }
  ++completed_;
  Flow& flow = flows_[in_flight_.front()];
  in_flight_.pop_front();
  flow.complete(received);
  lost_ = flow.lost();
  if (!lost_ && done() && !failure_.error()) finish();
}

bool Flows::done() const noexcept {
  return lost_ || std::ranges::all_of(flows_, [](const auto& flow) { return flow.done(); });
}

/// The flow whose message is posted next.
std::size_t Flows::due() const noexcept {
  const Flow& first = flows_[0];
  if (flows_.size() == 1) return 0;
  const bool behind = first.posted() < flows_[1].posted() + kLag;
  return behind && first.posted() < first.messages() ? 0 : 1;
}

/// Whether this rank's pieces up to k have come from all ranks: piece 0 ends in message 1.
bool Flows::is_added(std::size_t k) const noexcept {
  const Flow& first = flows_[0];
  return first.completed() >= std::min(std::max<std::size_t>(k + 1, 2), first.messages());
}

}  // namespace gradwire::exchange
