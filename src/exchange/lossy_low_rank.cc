#include "exchange/lossy_low_rank.h"

#include <algorithm>
#include <cmath>

#include "base/fail.h"
#include "exchange/timer.h"

namespace gradwire::exchange {
LowRankRounds::LowRankRounds(const LossyWork& work, const std::vector<LossyPart>& tensors,
                             const RoundPlace& at)
    : LossyRounds(work, at),
      tensors_(tensors),
      rounds_(work.recipe.low_rank.kind == lossy::LowRankKind::powersgd ? 2 : 1) {
  start();
}

void LowRankRounds::lay_out(std::size_t round) {
  layout_.clear();
  std::uint64_t total = 0;
  for (const LossyPart& part : tensors_) {
    const bool exact = work_.is_exact(part);
    if (exact && round > 0) continue;
    const std::uint64_t n =
        exact ? part.n : part.coder->low_rank_values(static_cast<unsigned>(round));
    layout_.emplace_back(n, !exact);
    total += n;
  }
  buffer_.assign(static_cast<std::size_t>(total), 0.0F);
}

/// Exact tensors go in the first round, in front of what they follow in the bucket.
void LowRankRounds::prepare(std::size_t round) {
  const Timer timer(work_.stats.encode_s);
  if (round == rounds_) return;
  before_.swap(buffer_);
  lay_out(round);
  fill(round);
}

void LowRankRounds::fill(std::size_t round) {
  float* to = buffer_.data();
  const float* from = before_.data();
  for (const LossyPart& part : tensors_) {
    const std::span<const float> gradient = gradient_of(part);
    if (work_.is_exact(part)) {
      if (round == 0) to = std::copy(gradient.begin(), gradient.end(), to);
      if (round == 1) {  // its mean has come already
        work_.put({from, gradient.size()}, part);
        from += gradient.size();
      }
      continue;
    }
    std::span<const float> factor;
    if (round == 0) {
      factor = part.coder->begin_low_rank(gradient, work_.step);
    } else {
      const std::size_t n = part.coder->low_rank_values(0);
      factor = part.coder->proceed_low_rank(gradient, {from, n});
      from += n;
    }
    to = std::copy(factor.begin(), factor.end(), to);
  }
}

std::unique_ptr<Exchange> LowRankRounds::make(std::size_t round) {
  if (round == rounds_) return nullptr;
  if (error()) lay_out(round);  // what was filled in so far is of no use
  return start_exact(at_.buckets, layout_, buffer_, index_of(round), at_.place.step, at_.rank,
                     at_.world);
}

void LowRankRounds::finish() {
  const Timer timer(work_.stats.decode_s);
  const float* from = buffer_.data();
  for (const LossyPart& part : tensors_) {
    const auto n = static_cast<std::size_t>(part.n);
    if (work_.is_exact(part)) {
      if (rounds_ > 1) continue;
      work_.put({from, n}, part);
      from += n;
      continue;
    }
    for (unsigned round = 0; round < rounds_; ++round)
      work_.stats.lossy.values += part.coder->low_rank_values(round) * sizeof(float);
    const std::size_t values = part.coder->low_rank_values(rounds_ - 1);
    out_.resize(n);
    part.coder->finish_low_rank({from, values}, out_);
    work_.put(out_, part);
    from += values;
    work_.stats.lossy.elements += part.n;
    work_.stats.lossy.asked += part.n;
    work_.stats.lossy.selected += part.n;
  }
}

}  // namespace gradwire::exchange
