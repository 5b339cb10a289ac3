// One or two ways of an exchange, run as one.
// In: flows with their handlers.
// Out: an exchange; the order of its steps follows from the numbers of messages alone.
// Assumes: what handlers work on outlives it.
#pragma once

#include <memory>

#include "exchange/flow.h"

namespace gradwire::exchange {

/// The second flow runs some messages behind the first: it may send what the first has brought.
class Flows : public Exchange {
 public:
  void add(const FlowShape& shape, std::unique_ptr<PieceHandler> handler, Rooms& rooms,
           WayBytes ExchangeStats::* way);

  std::optional<ExchangeStep> next() override;
  void complete(std::uint64_t id, std::span<const std::uint8_t> received) override;
  bool done() const noexcept override;
  bool lost() const noexcept override { return lost_; }
  void cancel(ErrorKind kind, const std::string& message) override { failure_.note(kind, message); }
  const std::optional<Error>& error() const noexcept override { return failure_.error(); }
  const ExchangeStats& stats() const noexcept override { return stats_; }

 protected:
  ExchangeStats& counters() noexcept { return stats_; }
  Failure& failure() noexcept { return failure_; }
  /// Called once, when all has come without an error.
  virtual void finish() {}

 private:
  std::size_t due() const noexcept;
  bool is_added(std::size_t k) const noexcept;

  ExchangeStats stats_;
  Failure failure_;
  std::vector<std::unique_ptr<PieceHandler>> handlers_;
  std::deque<Flow> flows_;
  std::deque<std::size_t> in_flight_;  ///< flows of the steps that have not completed
  std::uint64_t completed_ = 0;
  bool lost_ = false;
};

}  // namespace gradwire::exchange
