// A transport of all ranks in one process, for tests and for trying methods on one machine.
// In: one exchange a rank.
// Out: all of them run to their end, in an order drawn from a seed.
// Assumes: nothing; ranks whose lengths do not match, or that wait for each other, are an error.
#pragma once

#include <functional>
#include <random>

#include "gradwire/exchange.h"

namespace gradwire::exchange {

class Loopback {
 public:
  /// May change, cut or keep what goes from one rank to another in a step. In an all_reduce that is
  /// what `to` is given of the values of `from`: a network may damage what one rank gets, or all.
  using Tamper = std::function<void(std::uint64_t step, unsigned from, unsigned to,
                                    std::vector<std::uint8_t>& bytes)>;

  Loopback(std::vector<Exchange*> ranks, std::uint64_t seed, Tamper tamper = nullptr);

  /// Runs until no rank can move. Throws `transport` where two ranks do not agree on the bytes
  /// between them, or where one waits for a step that another never makes though none is lost
  /// (where one is, those that wait are cancelled, as a broken connection would do it).
  void run();
  std::uint64_t steps() const noexcept { return steps_; }

 private:
  struct Rank {
    Exchange* exchange;
    std::vector<ExchangeStep> posted;  ///< all steps so far
    std::uint64_t completed = 0;
  };

  void finish();
  bool post(Rank& rank);
  bool complete(unsigned r);
  std::vector<std::uint8_t> gather(unsigned r, std::uint64_t step) const;
  std::vector<std::uint8_t> reduce(unsigned r, std::uint64_t step) const;

  std::vector<Rank> ranks_;
  std::mt19937_64 random_;
  Tamper tamper_;
  std::uint64_t steps_ = 0;
};

}  // namespace gradwire::exchange
