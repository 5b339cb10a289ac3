// Exchanges one after another, run as one: what methods need that agree on something first.
// In: for each round an exchange, made from what the rounds before it have brought.
// Out: one exchange.
// Assumes: how many rounds there are, and how long their steps, follows from shapes, settings and
// what all ranks have agreed on. A rank that has failed makes the rounds that are left, cancelled.
#pragma once

#include <memory>

#include "exchange/flow.h"
#include "gradwire/exchange.h"

namespace gradwire::exchange {

class Rounds : public Exchange {
 public:
  std::optional<ExchangeStep> next() override;
  void complete(std::uint64_t id, std::span<const std::uint8_t> received) override;
  bool done() const noexcept override { return is_done_; }
  bool lost() const noexcept override { return lost_; }
  void cancel(ErrorKind kind, const std::string& message) override;
  const std::optional<Error>& error() const noexcept override { return failure_.error(); }
  const ExchangeStats& stats() const noexcept override { return stats_; }

 protected:
  /// To be called by the constructor of the class that is made: begins the first round.
  void start();
  /// Computes what a round sends. May throw; the round is then made all the same, cancelled.
  virtual void prepare(std::size_t round) = 0;
  /// The round's exchange; nothing behind the last one, or where no rank goes on.
  virtual std::unique_ptr<Exchange> make(std::size_t round) = 0;
  /// All has come without an error. May throw.
  virtual void finish() = 0;
  /// This rank cannot make a step that the others wait for.
  void give_up() noexcept { lost_ = true; }
  ExchangeStats& counters() noexcept { return stats_; }

 private:
  void advance();
  void end_round();

  std::unique_ptr<Exchange> current_;
  std::size_t round_ = 0;
  std::uint64_t base_ = 0;   ///< steps of the rounds before
  std::uint64_t steps_ = 0;  ///< of this one, completed
  Failure failure_;
  ExchangeStats stats_;
  bool is_done_ = false, lost_ = false;
};

}  // namespace gradwire::exchange
