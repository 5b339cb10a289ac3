// The exact all-reduces of gradwire/exchange.h.

#include <algorithm>
#include <chrono>
#include <map>

#include <fmt/format.h>

#include "base/fail.h"
#include "exchange/addition.h"
#include "exchange/flow.h"
#include "exchange/piece_coder.h"

namespace gradwire {

using exchange::AdditionRule;
using exchange::Piece;
using exchange::PieceCoder;
using exchange::Rooms;
using exchange::Shard;

struct ExchangeBucket::State {
  std::uint32_t index;
  unsigned rank, world;
  AdditionRule rule;
  PieceCoder coder;
  std::vector<Shard> shards;  ///< one a rank
  Shard whole;                ///< for gather_merge
  Rooms to_owners, from_owners, to_all;
};

namespace {

using Clock = std::chrono::steady_clock;

/// Adds its lifetime to a number of seconds.
class Timer {
 public:
  explicit Timer(double& seconds) : seconds_(seconds), start_(Clock::now()) {}
  ~Timer() { seconds_ += std::chrono::duration<double>(Clock::now() - start_).count(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  double& seconds_;
  Clock::time_point start_;
};

std::uint64_t first_of(const Piece& piece) { return piece.parts.front().first; }

std::size_t most_pieces(const std::vector<Shard>& shards) {
  std::size_t most = 2;
  for (const Shard& shard : shards) most = std::max(most, shard.size());
  return most;
}

/// What the handlers of all flows share: the bucket's memory and its coder.
class BucketMemory {
 public:
  BucketMemory(PieceCoder& coder, std::uint8_t* data, ExchangeStats& stats)
      : coder_(coder), data_(data), stats_(stats) {}

  std::uint8_t* at(const Piece& piece) const { return data_ + first_of(piece) * coder_.width(); }
  std::size_t bytes(const Piece& piece) const {
    return static_cast<std::size_t>(piece.elements) * coder_.width();
  }
  Bytes encode(const Piece& piece, std::size_t receivers) {
    const Timer timer(stats_.encode_s);
    stats_.original_bytes += receivers * bytes(piece);
    Bytes payload;
    coder_.encode(piece, at(piece), payload);
    return payload;
  }
  void decode(const Piece& piece, ByteSpan payload, std::uint8_t* out) {
    const Timer timer(stats_.decode_s);
    coder_.decode(piece, payload, out);
  }

 private:
  PieceCoder& coder_;
  std::uint8_t* data_;
  ExchangeStats& stats_;
};

/// Values of one shard from all ranks, piece by piece, added as soon as all are there.
class ShardSum {
 public:
  ShardSum(BucketMemory& memory, const AdditionRule& rule, const Shard& shard, unsigned rank)
      : memory_(memory), rule_(rule), shard_(shard), rank_(rank) {}

  void take(unsigned peer, std::size_t k, ByteSpan payload) {
    const Piece& piece = shard_[k];
    std::vector<Bytes>& values = waiting_[k];
    values.resize(rule_.world);
    values[peer].resize(memory_.bytes(piece));
    memory_.decode(piece, payload, values[peer].data());
    if (++arrived_[k] + 1 < rule_.world) return;
    std::vector<const std::uint8_t*> pointers;
    for (unsigned r = 0; r < rule_.world; ++r)
      pointers.push_back(r == rank_ ? memory_.at(piece) : values[r].data());
    exchange::add_values(rule_, first_of(piece), pointers, static_cast<std::size_t>(piece.elements),
                         memory_.at(piece));
    waiting_.erase(k);
    arrived_.erase(k);
  }

 private:
  BucketMemory& memory_;
  const AdditionRule& rule_;
  const Shard& shard_;
  unsigned rank_;
  std::map<std::size_t, std::vector<Bytes>> waiting_;
  std::map<std::size_t, unsigned> arrived_;
};

/// A payload that goes to every peer is made once.
class SharedPayloads {
 public:
  SharedPayloads(BucketMemory& memory, const Shard& shard, std::size_t receivers)
      : memory_(memory), shard_(shard), receivers_(receivers) {}

  Bytes encode(std::size_t k) {
    auto [entry, fresh] = payloads_.try_emplace(k);
    if (fresh) entry->second = {memory_.encode(shard_[k], receivers_), receivers_};
    if (--entry->second.left > 0) return entry->second.bytes;
    Bytes bytes = std::move(entry->second.bytes);
    payloads_.erase(entry);
    return bytes;
  }

 private:
  struct Payload {
    Bytes bytes;
    std::size_t left = 0;
  };
  BucketMemory& memory_;
  const Shard& shard_;
  std::size_t receivers_;
  std::map<std::size_t, Payload> payloads_;
};

/// Shards to their owners.
class ToOwners final : public exchange::PieceHandler {
 public:
  ToOwners(BucketMemory& memory, const AdditionRule& rule, const std::vector<Shard>& shards,
           unsigned rank)
      : memory_(memory), shards_(shards), own_(shards[rank]), sum_(memory, rule, own_, rank) {}
  std::size_t pieces_to(unsigned peer) const override { return shards_[peer].size(); }
  std::size_t pieces_from(unsigned) const override { return own_.size(); }
  Bytes encode(unsigned peer, std::size_t k) override {
    return memory_.encode(shards_[peer][k], 1);
  }
  void take(unsigned peer, std::size_t k, ByteSpan payload) override {
    sum_.take(peer, k, payload);
  }

 private:
  BucketMemory& memory_;
  const std::vector<Shard>& shards_;
  const Shard& own_;
  ShardSum sum_;
};

/// Sums from their owners.
class FromOwners final : public exchange::PieceHandler {
 public:
  FromOwners(BucketMemory& memory, const std::vector<Shard>& shards, unsigned rank)
      : memory_(memory),
        shards_(shards),
        own_(shards[rank]),
        payloads_(memory, own_, shards.size() - 1) {}
  std::size_t pieces_to(unsigned) const override { return own_.size(); }
  std::size_t pieces_from(unsigned peer) const override { return shards_[peer].size(); }
  Bytes encode(unsigned, std::size_t k) override { return payloads_.encode(k); }
  void take(unsigned peer, std::size_t k, ByteSpan payload) override {
    const Piece& piece = shards_[peer][k];
    memory_.decode(piece, payload, memory_.at(piece));
  }

 private:
  BucketMemory& memory_;
  const std::vector<Shard>& shards_;
  const Shard& own_;
  SharedPayloads payloads_;
};

/// Everything to everybody.
class ToAll final : public exchange::PieceHandler {
 public:
  ToAll(BucketMemory& memory, const AdditionRule& rule, const Shard& whole, unsigned rank)
      : whole_(whole), payloads_(memory, whole, rule.world - 1), sum_(memory, rule, whole, rank) {}
  std::size_t pieces_to(unsigned) const override { return whole_.size(); }
  std::size_t pieces_from(unsigned) const override { return whole_.size(); }
  Bytes encode(unsigned, std::size_t k) override { return payloads_.encode(k); }
  void take(unsigned peer, std::size_t k, ByteSpan payload) override {
    sum_.take(peer, k, payload);
  }

 private:
  const Shard& whole_;
  SharedPayloads payloads_;
  ShardSum sum_;
};

/// Flows one after the other, then the scaling that a rule leaves for the end.
class AllReduce final : public Exchange {
 public:
  AllReduce(PieceCoder& coder, const AdditionRule& rule, std::span<std::uint8_t> data)
      : rule_(rule), data_(data), memory_(coder, data.data(), stats_) {}

  void add(const exchange::FlowShape& shape, std::unique_ptr<exchange::PieceHandler> handler,
           Rooms& rooms, std::uint64_t ExchangeStats::* payload_bytes) {
    handlers_.push_back(std::move(handler));
    flows_.emplace_back(shape, *handlers_.back(), rooms, failure_, stats_, stats_.*payload_bytes);
  }
  void start() { skip_done(); }
  BucketMemory& memory() noexcept { return memory_; }

  std::optional<ExchangeStep> next() override {
    if (at_ == flows_.size()) return std::nullopt;
    std::optional<ExchangeStep> step = flows_[at_].next(next_id_);
    next_id_ += step.has_value();
    return step;
  }
  void complete(std::uint64_t id, std::span<const std::uint8_t> received) override {
    if (id != completed_ || id >= next_id_) {
      fail(ErrorKind::invalid_argument, "step {} completed, step {} is the next in flight", id,
           completed_);
    }
    ++completed_;
    flows_[at_].complete(received);
    skip_done();
  }
  bool done() const noexcept override { return at_ == flows_.size(); }
  void cancel(ErrorKind kind, const std::string& message) override {
    failure_.note(Error(kind, message));
  }
  const std::optional<Error>& error() const noexcept override { return failure_.error(); }
  const ExchangeStats& stats() const noexcept override { return stats_; }

 private:
  void skip_done() {
    while (at_ < flows_.size() && flows_[at_].done()) {
      if (flows_[at_].lost()) at_ = flows_.size() - 1;  // nothing can follow
      ++at_;
    }
    if (at_ < flows_.size() || scaled_) return;
    scaled_ = true;
    if (!failure_.error())
      exchange::scale(rule_, data_.data(), data_.size() / element_size(rule_.dtype));
  }

  AdditionRule rule_;
  std::span<std::uint8_t> data_;
  ExchangeStats stats_;
  exchange::Failure failure_;
  BucketMemory memory_;
  std::vector<std::unique_ptr<exchange::PieceHandler>> handlers_;
  std::deque<exchange::Flow> flows_;
  std::size_t at_ = 0;
  std::uint64_t next_id_ = 0, completed_ = 0;
  bool scaled_ = false;
};

constexpr std::uint32_t kFirstRoom = 4096;

/// Before sizes are known: room for a small piece, or a start of a large one.
std::uint32_t first_room(const Shard& shard, std::size_t width) {
  if (shard.empty()) return exchange::kPieceHeader;
  const std::uint64_t raw = shard[0].elements * width + 64 * shard[0].parts.size();
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(exchange::kPieceHeader + raw, kFirstRoom));
}

void check(DType dtype, unsigned rank, unsigned world, const ExchangeOptions& options) {
  if (!is_float(dtype))
    fail(ErrorKind::invalid_argument, "dtype {}: only floats are added", dtype_name(dtype));
  if (world == 0 || rank >= world)
    fail(ErrorKind::invalid_argument, "rank {} of {} ranks does not exist", rank, world);
  if (options.piece_elements == 0)
    fail(ErrorKind::invalid_argument, "piece_elements: 0 given, at least 1 needed");
}

}  // namespace

ExchangeBucket::ExchangeBucket(std::uint32_t index, DType dtype, std::vector<BucketTensor> tensors,
                               unsigned rank, unsigned world, const ExchangeOptions& options) {
  check(dtype, rank, world, options);
  std::uint64_t elements = 0;
  for (const BucketTensor& tensor : tensors) elements += exchange::element_count(tensor);
  const AdditionRule rule{dtype, options.order, world, options.mean, elements};
  state_ = std::make_unique<State>(
      State{index,
            rank,
            world,
            rule,
            PieceCoder(dtype, options.compress),
            exchange::cut_bucket(tensors, world, options.piece_elements),
            std::move(exchange::cut_bucket(tensors, 1, options.piece_elements)[0]),
            {},
            {},
            {}});
  State& s = *state_;
  const std::size_t width = element_size(dtype);
  for (unsigned p = 0; p < world; ++p) {
    const std::uint32_t own = first_room(s.shards[rank], width);
    const std::uint32_t peers = first_room(s.shards[p], width);
    s.to_owners.send.push_back(peers);
    s.to_owners.receive.push_back(own);
    s.from_owners.send.push_back(own);
    s.from_owners.receive.push_back(peers);
    s.to_all.send.push_back(first_room(s.whole, width));
    s.to_all.receive.push_back(first_room(s.whole, width));
  }
}
ExchangeBucket::~ExchangeBucket() = default;
ExchangeBucket::ExchangeBucket(ExchangeBucket&&) noexcept = default;
ExchangeBucket& ExchangeBucket::operator=(ExchangeBucket&&) noexcept = default;

std::uint64_t ExchangeBucket::bytes() const noexcept {
  return state_->rule.bucket_elements * state_->coder.width();
}

namespace {

void check_memory(std::uint64_t wanted, std::span<std::uint8_t> data) {
  if (data.size() != wanted) {
    fail(ErrorKind::invalid_argument, "data: {} bytes given, the bucket has {}", data.size(),
         wanted);
  }
}

}  // namespace

std::unique_ptr<Exchange> ExchangeBucket::two_shot(std::span<std::uint8_t> data,
                                                   std::uint32_t step) {
  State& s = *state_;
  check_memory(bytes(), data);
  auto reduce = std::make_unique<AllReduce>(s.coder, s.rule, data);
  if (s.world > 1 && !data.empty()) {
    exchange::FlowShape shape{{s.index, step, 1, 0}, s.rank, s.world, most_pieces(s.shards)};
    reduce->add(shape, std::make_unique<ToOwners>(reduce->memory(), s.rule, s.shards, s.rank),
                s.to_owners, &ExchangeStats::to_owners);
    shape.place.phase = 2;
    reduce->add(shape, std::make_unique<FromOwners>(reduce->memory(), s.shards, s.rank),
                s.from_owners, &ExchangeStats::from_owners);
  }
  reduce->start();
  return reduce;
}

std::unique_ptr<Exchange> ExchangeBucket::gather_merge(std::span<std::uint8_t> data,
                                                       std::uint32_t step) {
  State& s = *state_;
  check_memory(bytes(), data);
  auto reduce = std::make_unique<AllReduce>(s.coder, s.rule, data);
  if (s.world > 1 && !data.empty()) {
    const exchange::FlowShape shape{
        {s.index, step, 3, 0}, s.rank, s.world, std::max<std::size_t>(s.whole.size(), 2)};
    reduce->add(shape, std::make_unique<ToAll>(reduce->memory(), s.rule, s.whole, s.rank), s.to_all,
                &ExchangeStats::to_owners);
  }
  reduce->start();
  return reduce;
}

}  // namespace gradwire
