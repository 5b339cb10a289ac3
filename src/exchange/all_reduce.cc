// The exchanges of gradwire/exchange.h: exact all-reduces and the halves of one.

#include <algorithm>

#include "base/fail.h"
#include "exchange/flows.h"
#include "exchange/handlers.h"
#include "exchange/settings.h"

namespace gradwire {

using exchange::AdditionRule;
using exchange::Ownership;
using exchange::PieceCoder;
using exchange::Roles;
using exchange::Rooms;
using exchange::Shard;

struct ExchangeBucket::State {
  exchange::Place place;  ///< of no step yet
  unsigned rank, world;
  AdditionRule rule;
  PieceCoder coder;
  bool even_shards, has_roles;
  Ownership ownership;
  Shard whole;  ///< for gather_merge
  Rooms to_owners, from_owners, to_all;

  void reset_rooms();
  exchange::FlowShape flow(std::uint32_t step, std::uint8_t phase, std::size_t pieces) const {
    exchange::FlowShape shape{place, rank, world, std::max<std::size_t>(pieces, 2),
                              ownership.roles};
    shape.place.step = step;
    shape.place.phase = phase;
    return shape;
  }
};

namespace {

constexpr std::uint32_t kFirstRoom = 4096;

/// The flows of a bucket's exact exchange, and the scaling that its rule leaves for the end.
class ExactFlows final : public exchange::Flows {
 public:
  /// `sums`: the part of the bucket that holds sums in the end.
  ExactFlows(PieceCoder& coder, const AdditionRule& rule, std::span<std::uint8_t> data,
             std::span<std::uint8_t> sums)
      : rule_(rule), sums_(sums), memory_(coder, data.data(), counters()) {}
  exchange::BucketMemory& memory() noexcept { return memory_; }

 private:
  void finish() override {
    exchange::scale(rule_, sums_.data(), sums_.size() / element_size(rule_.dtype));
  }

  AdditionRule rule_;
  std::span<std::uint8_t> sums_;
  exchange::BucketMemory memory_;
};

std::size_t most_pieces(const std::vector<Shard>& shards) {
  std::size_t most = 0;
  for (const Shard& shard : shards) most = std::max(most, shard.size());
  return most;
}

/// Before sizes are known: room for a small piece, or a start of a large one.
std::uint32_t first_room(const Shard& shard, const PieceCoder& coder) {
  const std::size_t most = shard.empty() ? 0 : coder.bound(shard[0]);
  return static_cast<std::uint32_t>(
      std::min<std::size_t>(exchange::kPieceHeader + most, kFirstRoom));
}

/// Message 1 may have to carry two pieces; its length has 32 bits.
void check_pieces(const std::vector<Shard>& shards, const PieceCoder& coder) {
  for (const Shard& shard : shards) {
    for (const exchange::Piece& piece : shard) {
      if (coder.bound(piece) > UINT32_MAX / 4)
        fail(ErrorKind::invalid_argument,
             "piece_elements: a piece of {} elements may take {} bytes, at most {} allowed",
             piece.elements, coder.bound(piece), UINT32_MAX / 4);
    }
  }
}

Shard joined(const std::vector<Shard>& shards) {
  Shard whole;
  for (const Shard& shard : shards) whole.insert(whole.end(), shard.begin(), shard.end());
  return whole;
}

/// A shard for each server of a bucket, nothing for other ranks.
std::vector<Shard> shards_of_servers(const std::vector<BucketTensor>& tensors, const Roles& roles,
                                     unsigned world, std::uint64_t piece_elements) {
  std::vector<Shard> cut = exchange::cut_bucket(tensors, roles.servers(), piece_elements);
  std::vector<Shard> shards(world);
  std::size_t next = 0;
  for (unsigned r = 0; r < world; ++r)
    if (roles.serves(r)) shards[r] = std::move(cut[next++]);
  return shards;
}

/// The part of a bucket that holds sums in the end: all of it, or a mere server's own shard.
std::span<std::uint8_t> sums_of(const Ownership& ownership, unsigned rank, std::size_t width,
                                std::span<std::uint8_t> data) {
  if (ownership.roles.works(rank)) return data;
  const Shard& own = ownership.shards[rank];
  if (own.empty()) return data.first(0);
  const std::uint64_t first = own.front().parts.front().first;
  const exchange::Part& last = own.back().parts.back();
  return data.subspan(first * width, (last.first + last.n - first) * width);
}

void check_even(bool even_shards) {
  if (!even_shards) {
    fail(ErrorKind::invalid_argument,
         "even_shards: false given; a reduce-scatter or all-gather needs it");
  }
}

void check_memory(std::uint64_t wanted, std::span<std::uint8_t> data) {
  if (data.size() != wanted) {
    fail(ErrorKind::invalid_argument, "data: {} bytes given, the bucket has {}", data.size(),
         wanted);
  }
}

}  // namespace

void ExchangeBucket::State::reset_rooms() {
  to_owners = from_owners = to_all = {};
  const std::vector<Shard>& shards = ownership.shards;
  for (unsigned p = 0; p < world; ++p) {
    const std::uint32_t none = first_room({}, coder);
    const std::uint32_t own = ownership.roles.works(p) ? first_room(shards[rank], coder) : none;
    const std::uint32_t peers = ownership.roles.works(rank) ? first_room(shards[p], coder) : none;
    to_owners.send.push_back(peers);
    to_owners.receive.push_back(own);
    from_owners.send.push_back(own);
    from_owners.receive.push_back(peers);
    to_all.send.push_back(first_room(whole, coder));
    to_all.receive.push_back(first_room(whole, coder));
  }
}

ExchangeBucket::ExchangeBucket(std::uint32_t index, DType dtype, std::vector<BucketTensor> tensors,
                               unsigned rank, unsigned world, const ExchangeOptions& options) {
  exchange::check_settings(dtype, rank, world, options);
  exchange::check_groups(tensors, options);
  const Roles roles(options.roles, world);
  const AdditionRule rule{dtype, options.order, roles.workers(), options.mean,
                          exchange::bucket_elements(tensors, world, options)};
  const std::uint64_t piece = options.piece_elements;
  std::vector<Shard> shards = options.even_shards ? exchange::repeat_shard(tensors, world, piece)
                                                  : shards_of_servers(tensors, roles, world, piece);
  Shard whole =
      options.even_shards ? joined(shards) : std::move(exchange::cut_bucket(tensors, 1, piece)[0]);
  state_.reset(
      new State{{.bucket = index, .agreement = exchange::agreement_of(rule, options, tensors)},
                rank,
                world,
                rule,
                PieceCoder(dtype, options),
                options.even_shards,
                !options.roles.empty(),
                {roles, std::move(shards)},
                std::move(whole),
                {},
                {},
                {}});
  check_pieces(state_->ownership.shards, state_->coder);
  check_pieces({state_->whole}, state_->coder);
  state_->reset_rooms();
}
ExchangeBucket::~ExchangeBucket() = default;
ExchangeBucket::ExchangeBucket(ExchangeBucket&&) noexcept = default;
ExchangeBucket& ExchangeBucket::operator=(ExchangeBucket&&) noexcept = default;

std::uint64_t ExchangeBucket::bytes() const noexcept {
  return state_->rule.bucket_elements * state_->coder.width();
}

void ExchangeBucket::reset() { state_->reset_rooms(); }

std::unique_ptr<Exchange> ExchangeBucket::two_shot(std::span<std::uint8_t> data,
                                                   std::uint32_t step) {
  State& s = *state_;
  check_memory(bytes(), data);
  auto reduce = std::make_unique<ExactFlows>(s.coder, s.rule, data,
                                             sums_of(s.ownership, s.rank, s.coder.width(), data));
  if (s.world == 1 || data.empty()) return reduce;
  reduce->add(s.flow(step, 1, most_pieces(s.ownership.shards)),
              exchange::to_owners(reduce->memory(), s.rule, s.ownership, s.rank), s.to_owners,
              &ExchangeStats::to_owners);
  reduce->add(s.flow(step, 2, most_pieces(s.ownership.shards)),
              exchange::from_owners(reduce->memory(), s.ownership, s.rank), s.from_owners,
              &ExchangeStats::from_owners);
  return reduce;
}

std::unique_ptr<Exchange> ExchangeBucket::gather_merge(std::span<std::uint8_t> data,
                                                       std::uint32_t step) {
  State& s = *state_;
  if (s.has_roles) {
    fail(ErrorKind::invalid_argument,
         "roles: given; gather_merge has no servers, use two_shot or leave them out");
  }
  check_memory(bytes(), data);
  auto reduce = std::make_unique<ExactFlows>(s.coder, s.rule, data, data);
  if (s.world == 1 || data.empty()) return reduce;
  reduce->add(s.flow(step, 3, s.whole.size()),
              exchange::to_all(reduce->memory(), s.rule, s.whole, s.ownership.roles, s.rank),
              s.to_all, &ExchangeStats::to_owners);
  return reduce;
}

std::unique_ptr<Exchange> ExchangeBucket::reduce_scatter(std::span<std::uint8_t> data,
                                                         std::uint32_t step) {
  State& s = *state_;
  check_even(s.even_shards);
  check_memory(bytes(), data);
  const std::size_t shard = data.size() / s.world;
  auto reduce =
      std::make_unique<ExactFlows>(s.coder, s.rule, data, data.subspan(s.rank * shard, shard));
  if (s.world == 1 || data.empty()) return reduce;
  reduce->add(s.flow(step, 1, most_pieces(s.ownership.shards)),
              exchange::to_owners(reduce->memory(), s.rule, s.ownership, s.rank), s.to_owners,
              &ExchangeStats::to_owners);
  return reduce;
}

std::unique_ptr<Exchange> ExchangeBucket::all_gather(std::span<std::uint8_t> data,
                                                     std::uint32_t step) {
  State& s = *state_;
  check_even(s.even_shards);
  check_memory(bytes(), data);
  auto gather = std::make_unique<ExactFlows>(s.coder, s.rule, data, data.first(0));
  if (s.world == 1 || data.empty()) return gather;
  gather->add(s.flow(step, 2, most_pieces(s.ownership.shards)),
              exchange::from_owners(gather->memory(), s.ownership, s.rank), s.from_owners,
              &ExchangeStats::from_owners);
  return gather;
}

}  // namespace gradwire
