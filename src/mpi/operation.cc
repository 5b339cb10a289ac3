// Steps of this rank, from its hello to its end.

#include "mpi/operation.h"

#include <algorithm>

#include "base/fail.h"
#include "exchange/reduction.h"
#include "exchange/way_bytes.h"

namespace gradwire::mpi {
namespace {

void add(ExchangeStats& total, const ExchangeStats& stats) {
  exchange::add(total.to_owners, stats.to_owners);
  exchange::add(total.from_owners, stats.from_owners);
  total.groups.resize(std::max(total.groups.size(), stats.groups.size()));
  for (std::size_t k = 0; k < stats.groups.size(); ++k) {
    total.groups[k].original += stats.groups[k].original;
    total.groups[k].payload += stats.groups[k].payload;
  }
  total.lossy.elements += stats.lossy.elements;
  total.lossy.asked += stats.lossy.asked;
  total.lossy.selected += stats.lossy.selected;
  total.lossy.index += stats.lossy.index;
  total.lossy.values += stats.lossy.values;
  total.lossy.frames += stats.lossy.frames;
  total.lossy.exact += stats.lossy.exact;
  total.encode_s += stats.encode_s;
  total.decode_s += stats.decode_s;
}

/// What all ranks have sent, combined, at the beginning.
ByteSpan combined(Reduction reduction, std::size_t ranks, Bytes& received) {
  const std::size_t size = received.size() / ranks;
  const std::span<std::uint8_t> total = std::span(received).first(size);
  for (std::size_t r = 1; r < ranks; ++r)
    exchange::combine(reduction, total, ByteSpan(received).subspan(r * size, size));
  return total;
}

bool gathers(Route route, unsigned world) {
  return route == Route::gather_merge || (route == Route::automatic && world == 2);
}

}  // namespace

Operation::Operation(const Group& group, Call call)
    : group_(group),
      call_(std::move(call)),
      streams_(group.comm, group.rank, group.world),
      peers_(group.world),
      words_(group.world) {
  peers_[group.rank].ended = true;
}

bool Operation::progress(Plans& plans, std::uint32_t number) {
  try {
    return move(plans, number);
  } catch (const Broken&) {
    throw;
  } catch (const Error& error) {
    if (ended_) throw;
    end({Ending::Cause::own, error.kind(), error.what()});
  } catch (const std::exception& error) {  // memory
    if (ended_) throw;
    end({Ending::Cause::own, ErrorKind::limit, error.what()});
  }
  return true;
}

bool Operation::move(Plans& plans, std::uint32_t number) {
  const bool starts = !started_;
  if (starts) start(plans);
  bool moved = starts;
  for (unsigned p = 0; p < group_.world; ++p) moved |= listen(p);
  if (!ended_) moved |= advance(number);
  const auto has_ended = [](const Peer& peer) { return peer.ended; };
  if (!is_quiet() || !ended_ || !std::ranges::all_of(peers_, has_ended)) return moved;
  error_ = judge(words_);
  over_ = true;
  return true;
}

/// The hello goes out before anything can fail, so that every stream has one.
void Operation::start(Plans& plans) {
  started_ = true;
  std::string& hello = words_[group_.rank].hello;
  hello = call_.agreement();
  streams_.send_to_all(Tag::hello, hello);
  if (call_.error) throw Error(*call_.error);
  check_place();
  if (call_.lossy == nullptr) buckets_ = &plans.find(call_, group_.rank, group_.world).buckets;
}

/// The state of a lossy bucket is of one rank of so many.
void Operation::check_place() const {
  const LossyBucket* lossy = call_.lossy;
  if (lossy == nullptr || (lossy->rank() == group_.rank && lossy->world() == group_.world)) return;
  fail(ErrorKind::invalid_argument,
       "bucket: its state is that of rank {} of {}, the communicator's is rank {} of {}",
       lossy->rank(), lossy->world(), group_.rank, group_.world);
}

std::size_t Operation::exchanges() const noexcept {
  return call_.lossy == nullptr ? buckets_->size() : 1;
}

/// One step further, if that is possible.
bool Operation::advance(std::uint32_t number) {
  if (exchange_) return post() || complete();
  if (bucket_ == exchanges()) {
    end({});
  } else {
    begin_exchange(number);
  }
  return true;
}

void Operation::begin_exchange(std::uint32_t number) {
  if (call_.lossy != nullptr) {
    exchange_ = call_.lossy->reduce(call_.data, number, call_.facts);
  } else {
    ExchangeBucket& bucket = (*buckets_)[bucket_];
    const auto data = call_.data.subspan(element_, static_cast<std::size_t>(bucket.bytes()));
    element_ += data.size();
    exchange_ = gathers(call_.options.route, group_.world) ? bucket.gather_merge(data, number)
                                                           : bucket.two_shot(data, number);
  }
  if (exchange_->done()) finish_exchange();  // one rank
}

bool Operation::post() {
  std::optional<ExchangeStep> step = exchange_->next();
  if (exchange_->error()) throw Error(*exchange_->error());
  if (!step) return false;
  Incoming& incoming = incoming_.emplace_back();
  if (step->kind == StepKind::all_reduce) incoming.reduction = step->reduction;
  share_out(*step);
  incoming.id = step->id;
  incoming.bytes = step->receive_bytes;
  std::size_t total = 0;
  for (const std::size_t bytes : incoming.bytes) {
    incoming.offsets.push_back(total);
    total += bytes;
  }
  incoming.received.resize(total);
  if (incoming.reduction)
    std::ranges::copy(
        step->send.begin(),
        step->send.begin() + static_cast<std::ptrdiff_t>(incoming.bytes[group_.rank]),
        incoming.received.begin() + static_cast<std::ptrdiff_t>(incoming.offsets[group_.rank]));
  incoming.requests.reserve(group_.world);
  incoming.missing = group_.world - 1;
  streams_.send(std::move(*step));
  return true;
}

/// An all_reduce by messages, as a rank may stop at any time: all ranks send all to all, and
/// combine for themselves.
void Operation::share_out(ExchangeStep& step) const {
  if (step.kind != StepKind::all_reduce) return;
  const Bytes own = std::move(step.send);
  step.send.clear();
  for (unsigned p = 0; p < group_.world; ++p)
    step.send.insert(step.send.end(), own.begin(), own.end());
  step.send_bytes.assign(group_.world, own.size());
  step.receive_bytes.assign(group_.world, own.size());
}

bool Operation::complete() {
  if (incoming_.empty()) return false;
  Incoming& front = incoming_.front();
  if (front.missing > 0) {
    check_peers();
    return false;
  }
  if (!all_ended(front.requests.data(), front.requests.size())) return false;
  exchange_->complete(front.id, front.reduction
                                    ? combined(*front.reduction, group_.world, front.received)
                                    : ByteSpan(front.received));
  if (exchange_->error()) throw Error(*exchange_->error());
  incoming_.pop_front();
  ++completed_;
  if (exchange_->done()) finish_exchange();
  return true;
}

void Operation::finish_exchange() {
  if (exchange_->error()) throw Error(*exchange_->error());  // of a rank that is alone
  add(stats_, exchange_->stats());
  exchange_.reset();
  ++bucket_;
}

/// Says how this rank has ended. What peers have under way to it is still taken.
void Operation::end(Ending ending) {
  if (exchange_) add(stats_, exchange_->stats());
  exchange_.reset();
  words_[group_.rank].ending = std::move(ending);
  ended_ = true;
  streams_.send_to_all(Tag::end, words_[group_.rank].ending.text());
}

/// Nothing of this rank's memory is in MPI's hands any more.
bool Operation::is_quiet() {
  if (!streams_.is_quiet()) return false;
  const auto has_come = [](Incoming& step) {
    return all_ended(step.requests.data(), step.requests.size());
  };
  return !ended_ || std::ranges::all_of(incoming_, has_come);
}

void Operation::forget(Plans& plans) {
  plans.clear();
  if (call_.lossy != nullptr) call_.lossy->reset();
}

void Operation::abandon(const Error& error) {
  error_ = error;
  over_ = true;
}

}  // namespace gradwire::mpi
