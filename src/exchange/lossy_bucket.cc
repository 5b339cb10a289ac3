// LossyBucket of gradwire/lossy.h.

#include <algorithm>
#include <set>

#include "base/fail.h"
#include "base/hash.h"
#include "exchange/flows.h"
#include "exchange/lossy_gather.h"
#include "exchange/pieces.h"
#include "exchange/settings.h"

namespace gradwire {

using exchange::LossyParameters;
using exchange::LossyPart;
using exchange::LossyPiece;
using exchange::Roles;
using exchange::Rooms;

struct LossyBucket::State {
  LossyParameters& shared;
  DType dtype;
  std::uint64_t elements = 0;
  std::string agreement;  ///< but for the facts of a step
  std::vector<LossyPiece> pieces;
  exchange::Place place;  ///< of no step yet
  Roles roles;
  Rooms rooms;

  void reset_rooms();
};

namespace {

constexpr std::uint32_t kMagic = 0x314c5747;  // "GWL1"
constexpr std::size_t kFirstRoom = 4096;
constexpr std::uint8_t kPhase = 3;  // everything to everybody

/// The flow of a lossy exchange; without one the rank is alone and it is done from the start.
class LossyFlows final : public exchange::Flows {
 public:
  ExchangeStats& stats_of_work() noexcept { return counters(); }

  /// Codes what has no peers, and notes what fails.
  void run_alone(exchange::LossyGather& gather) {
    try {
      gather.run_alone();
    } catch (const Error& error) {
      failure().note(error.kind(), error.what());
    }
  }
};

void check_dtype(DType dtype) {
  if (dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16) return;
  fail(ErrorKind::invalid_argument, "dtype: lossy methods take f32, bf16 and f16, not {}",
       dtype_name(dtype));
}

ByteSpan bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

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
  const std::size_t most = pieces.empty() ? 0 : pieces.front().bound;
  const auto room = static_cast<std::uint32_t>(std::min(exchange::kPieceHeader + most, kFirstRoom));
  rooms.send.assign(shared.world, room);
  rooms.receive.assign(shared.world, room);
}

LossyBucket::LossyBucket(LossyState& state, std::uint32_t index, DType dtype,
                         std::vector<LossyTensor> tensors) {
  check_dtype(dtype);
  LossyParameters& shared = *state.state_;
  const std::uint64_t elements = count_elements(tensors);
  const std::string agreement = agreement_of(shared, dtype, tensors);
  std::vector<LossyPiece> pieces =
      exchange::cut_lossy(parts_of(shared, tensors), shared.recipe, dtype);
  state_.reset(new State{shared,
                         dtype,
                         elements,
                         agreement,
                         std::move(pieces),
                         {.bucket = index, .phase = kPhase, .agreement = seed_of(agreement)},
                         Roles({}, shared.world),
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
  return state_->agreement + formatted("step {}\n", state_->shared.step) +
         formatted("keep {}\n", keep);
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
      flows->stats_of_work()};
  auto gather =
      std::make_unique<exchange::LossyGather>(work, s.pieces, s.shared.rank, s.shared.world);
  if (s.pieces.empty()) return flows;
  if (s.shared.world == 1) {
    flows->run_alone(*gather);
    return flows;
  }
  exchange::FlowShape shape{s.place, s.shared.rank, s.shared.world,
                            std::max<std::size_t>(s.pieces.size(), 2), s.roles};
  shape.place.step = step;
  flows->add(shape, std::move(gather), s.rooms, &ExchangeStats::to_owners);
  return flows;
}

}  // namespace gradwire
