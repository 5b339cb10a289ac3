#include "exchange/rounds.h"

#include "base/fail.h"
#include "exchange/way_bytes.h"

namespace gradwire::exchange {
void Rounds::start() { advance(); }

/// Begins rounds until one has steps, or none is left.
void Rounds::advance() {
  for (; !is_done_; ++round_) {
    if (!failure_.error()) failure_.attempt([&] { prepare(round_); });
    current_ = make(round_);
    if (current_ == nullptr) {
      if (!failure_.error()) failure_.attempt([&] { finish(); });
      is_done_ = true;
      return;
    }
    if (const auto& error = failure_.error()) current_->cancel(error->kind(), error->what());
    if (!current_->done()) return;
    end_round();
  }
}

void Rounds::end_round() {
  if (const auto& error = current_->error()) failure_.note(error->kind(), error->what());
  const ExchangeStats& made = current_->stats();
  add(stats_.to_owners, made.to_owners);
  add(stats_.from_owners, made.from_owners);
  stats_.encode_s += made.encode_s;
  stats_.decode_s += made.decode_s;
  base_ += steps_;
  steps_ = 0;
  if (current_->lost()) lost_ = is_done_ = true;
  current_.reset();
}

std::optional<ExchangeStep> Rounds::next() {
  if (is_done_) return std::nullopt;
  std::optional<ExchangeStep> step = current_->next();
  if (step) step->id += base_;
  return step;
}

void Rounds::complete(std::uint64_t id, std::span<const std::uint8_t> received) {
  if (is_done_ || id != base_ + steps_)
    fail(ErrorKind::invalid_argument, "step {} completed; step {} is due", id, base_ + steps_);
  current_->complete(id - base_, received);
  ++steps_;
  if (!current_->done()) return;
  end_round();
  ++round_;
  advance();
}

void Rounds::cancel(ErrorKind kind, const std::string& message) {
  failure_.note(kind, message);
  if (current_ != nullptr) current_->cancel(kind, message);
}

}  // namespace gradwire::exchange
