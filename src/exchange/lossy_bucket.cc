// LossyBucket of gradwire/lossy.h.

#include <algorithm>
#include <set>

#include "base/fail.h"
#include "base/hash.h"
#include "exchange/flows.h"
#include "exchange/lossy_gather.h"
#include "exchange/lossy_learned.h"
#include "exchange/lossy_low_rank.h"
#include "exchange/lossy_owners.h"
#include "exchange/lossy_sketch_sum.h"
#include "exchange/lossy_table_sum.h"
#include "exchange/pieces.h"
#include "exchange/settings.h"

namespace gradwire {

using exchange::LossyParameters;
using exchange::LossyPart;
using exchange::LossyPiece;
using exchange::Roles;
using exchange::Rooms;

/// The flows of a lossy exchange; without any the rank is alone and it is done from the start.
class LossyFlows final : public exchange::Flows {
 public:
  using Flows::counters;
  using Flows::failure;
};

struct LossyBucket::State {
  LossyParameters& shared;
  DType dtype;
  std::uint64_t elements = 0;
  std::string agreement;  ///< but for the facts of a step
  std::vector<LossyPart> tensors;
  std::vector<LossyPiece> pieces;  ///< of gather
  exchange::LossyShards shards;    ///< of two_shot
  exchange::Place place;           ///< of no step yet
  Roles roles;
  Rooms to_all, to_owners, from_owners;
  exchange::RoundBuckets rounds;     ///< of the other ways
  exchange::RoundRooms round_rooms;  ///< of learned

  void reset_rooms();
  /// Nothing where the method's way has no rounds.
  std::unique_ptr<Exchange> in_rounds(const exchange::LossyWork& work, std::uint32_t step);
  exchange::FlowShape flow(std::uint32_t step, std::uint8_t phase, std::size_t messages) const;
  void gather(LossyFlows& flows, const exchange::LossyWork& work, std::uint32_t step);
  void two_shot(LossyFlows& flows, const exchange::LossyWork& work, std::uint32_t step);
};

namespace {

constexpr std::uint32_t kMagic = 0x314c5747;  // "GWL1"
enum Phase : std::uint8_t { kToOwners = 1, kFromOwners = 2, kToAll = 3 };

/// A number that stands for tensors: the lists themselves may be long.
std::uint64_t hash_of(const std::vector<LossyTensor>& tensors) {
  Bytes bytes;
  ByteWriter out(bytes);
  for (const LossyTensor& tensor : tensors) {
    out.varint(tensor.name.size());
    out.bytes(bytes_of(tensor.name));
    out.u8(tensor.exact);
    out.varint(tensor.shape.size());
    for (const std::uint64_t dim : tensor.shape) out.u64(dim);
  }
  return hash64(bytes);
}

std::string agreement_of(const LossyParameters& shared, DType dtype,
                         const std::vector<LossyTensor>& tensors) {
  return formatted("method {}\n", shared.recipe.canonical) + formatted("ranks {}\n", shared.world) +
         formatted("dtype {}\n", dtype_name(dtype)) +
         formatted("tensors {}, hash {:016x}\n", tensors.size(), hash_of(tensors));
}

std::uint64_t seed_of(const std::string& agreement) {
  Bytes bytes;
  ByteWriter out(bytes);
  out.u32(kMagic);
  out.bytes(bytes_of(agreement));
  return hash64(bytes);
}

std::uint64_t count_elements(const std::vector<LossyTensor>& tensors) {
  std::vector<BucketTensor> plain;
  for (const LossyTensor& tensor : tensors) plain.push_back({tensor.shape});
  return exchange::count_elements(plain);
}

std::vector<LossyPart> parts_of(LossyParameters& shared, const std::vector<LossyTensor>& tensors) {
  std::vector<LossyPart> parts;
  std::set<std::string_view> names;
  std::uint64_t first = 0;
  for (const LossyTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second)
      fail(ErrorKind::invalid_argument, "tensors: the name '{}' is given twice", tensor.name);
    const std::uint64_t n = exchange::element_count({tensor.shape});
    if (n > 0) parts.push_back({&shared.coder(tensor), first, n});
    first += n;
  }
  return parts;
}

}  // namespace

void LossyBucket::State::reset_rooms() {
  to_all = to_owners = from_owners = {};
  for (auto& [layout, bucket] : rounds) bucket.reset();
  round_rooms.clear();
  const auto first_room = [](const std::vector<LossyPiece>& list) {
    return exchange::first_room(list.empty() ? 0 : list.front().bound);
  };
  for (unsigned p = 0; p < shared.world; ++p) {
    to_all.send.push_back(first_room(pieces));
    to_all.receive.push_back(first_room(pieces));
    if (shards.empty()) continue;
    to_owners.send.push_back(first_room(shards[p]));
    to_owners.receive.push_back(first_room(shards[shared.rank]));
    from_owners.send.push_back(first_room(shards[shared.rank]));
    from_owners.receive.push_back(first_room(shards[p]));
  }
}

exchange::FlowShape LossyBucket::State::flow(std::uint32_t step, std::uint8_t phase,
                                             std::size_t messages) const {
  exchange::FlowShape shape{place, shared.rank, shared.world, std::max<std::size_t>(messages, 2),
                            roles};
  shape.place.step = step;
  shape.place.phase = phase;
  return shape;
}

void LossyBucket::State::gather(LossyFlows& flows, const exchange::LossyWork& work,
                                std::uint32_t step) {
  auto handler = std::make_unique<exchange::LossyGather>(work, pieces, shared.rank, shared.world);
  if (shared.world == 1) return flows.failure().attempt([&] { handler->run_alone(); });
  flows.add(flow(step, kToAll, pieces.size()), std::move(handler), to_all,
            &ExchangeStats::to_owners);
}

void LossyBucket::State::two_shot(LossyFlows& flows, const exchange::LossyWork& work,
                                  std::uint32_t step) {
  const auto owners = std::make_shared<exchange::LossyOwners>(work, tensors, shards, shared.rank);
  flows.failure().attempt([&] { owners->begin(); });
  if (shared.world == 1) return flows.failure().attempt([&] { owners->run_alone(); });
  std::size_t most = 0;
  for (const auto& shard : shards) most = std::max(most, shard.size());
  flows.add(flow(step, kToOwners, most), std::make_unique<exchange::LossyToOwners>(owners),
            to_owners, &ExchangeStats::to_owners);
  flows.add(flow(step, kFromOwners, most), std::make_unique<exchange::LossyFromOwners>(owners),
            from_owners, &ExchangeStats::from_owners);
}

std::unique_ptr<Exchange> LossyBucket::State::in_rounds(const exchange::LossyWork& work,
                                                        std::uint32_t step) {
  exchange::RoundPlace at{place, shared.rank, shared.world, rounds};
  at.place.step = step;
  switch (shared.recipe.way) {
    case lossy::Way::low_rank:
      return std::make_unique<exchange::LowRankRounds>(work, tensors, at);
    case lossy::Way::table_sum:
      return std::make_unique<exchange::TableSumRounds>(work, tensors, at, *shared.table);
    case lossy::Way::sketch_sum:
      return std::make_unique<exchange::SketchSumRounds>(work, tensors, at);
    case lossy::Way::learned:
      if (shared.learned.network) at.place.agreement ^= shared.learned.network->hash();
      return std::make_unique<exchange::LearnedRounds>(work, tensors, at, round_rooms,
                                                       shared.learned);
    default:
      return nullptr;
  }
}

LossyBucket::LossyBucket(LossyState& state, std::uint32_t index, DType dtype,
                         std::vector<LossyTensor> tensors) {
  lossy::check_lossy_dtype(dtype);
  LossyParameters& shared = *state.state_;
  const std::uint64_t elements = count_elements(tensors);
  const std::string agreement = agreement_of(shared, dtype, tensors);
  std::vector<LossyPart> parts = parts_of(shared, tensors);
  const bool is_gather = shared.recipe.way == lossy::Way::gather;
  std::vector<LossyPiece> pieces;
  exchange::LossyShards shards;
  if (is_gather) {
    pieces = exchange::cut_lossy(parts, shared.recipe, dtype);
  } else if (shared.recipe.way == lossy::Way::two_shot) {
    shards = exchange::cut_lossy_shards(parts, shared.recipe, dtype, shared.world);
  }
  state_.reset(new State{shared,
                         dtype,
                         elements,
                         agreement,
                         std::move(parts),
                         std::move(pieces),
                         std::move(shards),
                         {.bucket = index, .agreement = seed_of(agreement)},
                         Roles({}, shared.world),
                         {},
                         {},
                         {},
                         {},
                         {}});
  state_->reset_rooms();
}
LossyBucket::~LossyBucket() = default;
LossyBucket::LossyBucket(LossyBucket&&) noexcept = default;
LossyBucket& LossyBucket::operator=(LossyBucket&&) noexcept = default;

std::uint64_t LossyBucket::bytes() const noexcept {
  return state_->elements * element_size(state_->dtype);
}

unsigned LossyBucket::rank() const noexcept { return state_->shared.rank; }
unsigned LossyBucket::world() const noexcept { return state_->shared.world; }

std::string LossyBucket::agreement(const LossyStep& facts) const {
  const std::string keep = facts.keep ? formatted("{}", *facts.keep) : "as the method says";
  const auto& network = state_->shared.learned.network;
  const std::string learned = network ? formatted("network {:016x}\n", network->hash()) : "";
  return state_->agreement + formatted("step {}\n", state_->shared.step) +
         formatted("keep {}\n", keep) + learned;
}

void LossyBucket::reset() { state_->reset_rooms(); }

std::unique_ptr<Exchange> LossyBucket::reduce(std::span<std::uint8_t> data, std::uint32_t step,
                                              const LossyStep& facts) {
  State& s = *state_;
  if (data.size() != bytes())
    fail(ErrorKind::invalid_argument, "data: {} bytes given, the bucket has {}", data.size(),
         bytes());
  if (facts.keep && !(*facts.keep > 0 && *facts.keep <= 1))
    fail(ErrorKind::invalid_argument, "keep: {} given, above 0 up to 1 needed", *facts.keep);
  auto flows = std::make_unique<LossyFlows>();
  const exchange::LossyWork work{
      s.shared.recipe,
      s.shared.memory,
      s.dtype,
      data.data(),
      {s.shared.step, facts.keep, {facts.learning_rate_ratio, facts.gradient_norm}},
      flows->counters()};
  if (s.tensors.empty()) return flows;
  if (auto rounds = s.in_rounds(work, step)) return rounds;
  if (s.shards.empty()) {
    s.gather(*flows, work, step);
  } else {
    s.two_shot(*flows, work, step);
  }
  return flows;
}

}  // namespace gradwire
