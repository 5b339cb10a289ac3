#include "exchange/loopback.h"

#include <algorithm>
#include <numeric>

#include "base/bytes.h"
#include "base/fail.h"
#include "exchange/reduction.h"

namespace gradwire::exchange {
namespace {

std::size_t offset_of(const ExchangeStep& step, unsigned peer) {
  return std::accumulate(step.send_bytes.begin(), step.send_bytes.begin() + peer, std::size_t{0});
}

}  // namespace

Loopback::Loopback(std::vector<Exchange*> ranks, std::uint64_t seed, Tamper tamper)
    : random_(seed), tamper_(std::move(tamper)) {
  for (Exchange* exchange : ranks) ranks_.push_back({exchange, {}, 0});
}

void Loopback::run() {
  std::vector<unsigned> order(ranks_.size());
  std::iota(order.begin(), order.end(), 0u);
  for (bool moved = true; moved;) {
    moved = false;
    std::shuffle(order.begin(), order.end(), random_);
    for (const unsigned r : order) {
      // A slow rank posts late, an eager one fills its window before it looks at what came.
      if (random_() % 3 != 0) moved |= post(ranks_[r]);
      if (random_() % 3 != 0) moved |= complete(r);
    }
    if (moved) continue;
    for (const unsigned r : order) moved |= post(ranks_[r]) || complete(r);
  }
  finish();
}

/// A rank that is lost breaks its connections, which the others notice; else all must be done.
void Loopback::finish() {
  const auto lost = [](const Rank& rank) { return rank.exchange->lost(); };
  const bool broken = std::any_of(ranks_.begin(), ranks_.end(), lost);
  for (const Rank& rank : ranks_) {
    steps_ = std::max<std::uint64_t>(steps_, rank.posted.size());
    if (rank.exchange->done()) continue;
    if (!broken) {
      fail(ErrorKind::transport, "a rank waits at step {} for steps that others do not make",
           rank.completed);
    }
    rank.exchange->cancel(ErrorKind::transport, "the connection to a rank has broken");
  }
}

bool Loopback::post(Rank& rank) {
  std::optional<ExchangeStep> step = rank.exchange->next();
  if (!step) return false;
  if (step->id != rank.posted.size())
    fail(ErrorKind::transport, "step {} posted, {} is next", step->id, rank.posted.size());
  rank.posted.push_back(std::move(*step));
  return true;
}

bool Loopback::complete(unsigned r) {
  Rank& rank = ranks_[r];
  if (rank.exchange->done()) return false;  // a rank that is lost leaves steps in flight
  const std::uint64_t step = rank.completed;
  for (const Rank& other : ranks_) {
    if (other.posted.size() <= step) return false;
  }
  const bool reduces = rank.posted[step].kind == StepKind::all_reduce;
  const std::vector<std::uint8_t> received = reduces ? reduce(r, step) : gather(r, step);
  ++rank.completed;
  rank.exchange->complete(step, received);
  return true;
}

std::vector<std::uint8_t> Loopback::gather(unsigned r, std::uint64_t step) const {
  std::vector<std::uint8_t> received;
  for (unsigned p = 0; p < ranks_.size(); ++p) {
    const ExchangeStep& sent = ranks_[p].posted[step];
    if (sent.kind != StepKind::all_to_all)
      fail(ErrorKind::transport, "step {}: rank {} makes another kind of step", step, p);
    const std::size_t wanted = ranks_[r].posted[step].receive_bytes[p];
    if (sent.send_bytes[r] != wanted) {
      fail(ErrorKind::transport, "step {}: rank {} sends {} bytes to rank {}, which expects {}",
           step, p, sent.send_bytes[r], r, wanted);
    }
    const auto from = sent.send.begin() + static_cast<std::ptrdiff_t>(offset_of(sent, r));
    std::vector<std::uint8_t> bytes(from, from + static_cast<std::ptrdiff_t>(wanted));
    if (tamper_ && p != r) tamper_(step, p, r, bytes);
    received.insert(received.end(), bytes.begin(), bytes.end());
  }
  return received;
}

std::vector<std::uint8_t> Loopback::reduce(unsigned r, std::uint64_t step) const {
  const ExchangeStep& own = ranks_[r].posted[step];
  std::vector<std::uint8_t> total = own.send;
  for (unsigned p = 0; p < ranks_.size(); ++p) {
    if (p == r) continue;
    const ExchangeStep& sent = ranks_[p].posted[step];
    if (sent.kind != own.kind || sent.reduction != own.reduction)
      fail(ErrorKind::transport, "step {}: rank {} makes another kind of step", step, p);
    if (sent.send.size() != own.send.size()) {
      fail(ErrorKind::transport, "step {}: rank {} gives {} bytes to rank {}, which gives {}", step,
           p, sent.send.size(), r, own.send.size());
    }
    std::vector<std::uint8_t> values = sent.send;
    if (tamper_) tamper_(step, p, r, values);
    total.resize(std::min(total.size(), values.size()));
    combine(own.reduction, total, values);
  }
  return total;
}

}  // namespace gradwire::exchange
