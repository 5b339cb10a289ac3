#include "exchange/lossy_state.h"

#include <algorithm>

#include "base/fail.h"
#include "exchange/settings.h"

namespace gradwire {
namespace {

using Loaded = exchange::LossyParameters::Loaded;

constexpr std::uint32_t kMagic = 0x534c5747;  // "GWLS"
constexpr std::uint8_t kVersion = 2;

/// A state as it lies in bytes.
struct Saved {
  std::string spec;
  unsigned rank = 0, world = 1;
  std::uint64_t step = 0;
  Bytes network;
  std::map<std::string, Loaded, std::less<>> tensors;
};

Bytes read_bytes(ByteReader& in, const char* field) {
  const ByteSpan bytes = in.bytes(field, static_cast<std::size_t>(in.count(field, in.left())));
  return {bytes.begin(), bytes.end()};
}

std::string read_text(ByteReader& in, const char* field) {
  const Bytes bytes = read_bytes(in, field);
  return {bytes.begin(), bytes.end()};
}

void write_bytes(ByteSpan bytes, ByteWriter& out) {
  out.varint(bytes.size());
  out.bytes(bytes);
}

Saved parse(ByteSpan bytes) {
  ByteReader in(bytes);
  if (in.u32("magic") != kMagic) fail(ErrorKind::corrupt, "state at byte 0: this is no LossyState");
  if (const unsigned version = in.u8("version"); version != kVersion)
    fail(ErrorKind::unsupported, "state at byte 4: version {} found, known is {}", version,
         kVersion);
  Saved saved;
  saved.spec = read_text(in, "spec");
  saved.rank = static_cast<unsigned>(in.count("rank", UINT32_MAX));
  saved.world = static_cast<unsigned>(in.count("world", UINT32_MAX));
  saved.step = in.varint("step");
  saved.network = read_bytes(in, "network");
  const std::uint64_t count = in.count("tensors", in.left());
  for (std::uint64_t i = 0; i < count; ++i) {
    std::string name = read_text(in, "name");
    Loaded tensor;
    tensor.shape.resize(static_cast<std::size_t>(in.count("dimensions", 32)));
    for (std::uint64_t& dim : tensor.shape) dim = in.varint("dim");
    tensor.is_exact = in.count("exact", 1) != 0;
    tensor.state = read_bytes(in, "tensor");
    if (!saved.tensors.emplace(std::move(name), std::move(tensor)).second)
      fail(ErrorKind::corrupt, "state: a name stands there twice");
  }
  in.expect_end("state");
  return saved;
}

Bytes serialise(const Saved& saved) {
  Bytes bytes;
  ByteWriter out(bytes);
  out.u32(kMagic);
  out.u8(kVersion);
  write_bytes(bytes_of(saved.spec), out);
  out.varint(saved.rank);
  out.varint(saved.world);
  out.varint(saved.step);
  write_bytes(saved.network, out);
  out.varint(saved.tensors.size());
  for (const auto& [name, tensor] : saved.tensors) {
    write_bytes(bytes_of(name), out);
    out.varint(tensor.shape.size());
    for (const std::uint64_t dim : tensor.shape) out.varint(dim);
    out.varint(tensor.is_exact);
    write_bytes(tensor.state, out);
  }
  return bytes;
}

void check_spec(const Saved& saved, std::string_view spec) {
  if (saved.spec == spec) return;
  fail(ErrorKind::invalid_argument, "state: it is of '{}', this run's method is '{}'", saved.spec,
       spec);
}

void check_shape(std::string_view name, std::span<const std::uint64_t> known,
                 std::span<const std::uint64_t> given) {
  if (std::ranges::equal(known, given)) return;
  fail(ErrorKind::invalid_argument, "{}: shape ({}) given, its state has ({})", name,
       fmt::join(given, ", "), fmt::join(known, ", "));
}

void check_exact(std::string_view name, bool known, bool given) {
  if (known == given) return;
  fail(ErrorKind::invalid_argument, "{}: it goes {} now, its state is of one that went {}", name,
       given ? "exactly" : "by the method", known ? "exactly" : "by the method");
}

/// That states are those of all ranks, in order, after the same step.
void check_ranks(const std::vector<Saved>& ranks) {
  const Saved& first = ranks.front();
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const Saved& one = ranks[r];
    if (one.rank != r || one.world != ranks.size())
      fail(ErrorKind::invalid_argument, "merge: state {} of {} is that of rank {} of {}", r,
           ranks.size(), one.rank, one.world);
    check_spec(one, first.spec);
    if (one.step != first.step || one.tensors.size() != first.tensors.size())
      fail(ErrorKind::invalid_argument,
           "merge: rank {} has {} tensors after step {}, rank 0 has {} after step {}", r,
           one.tensors.size(), one.step, first.tensors.size(), first.step);
    if (one.network != first.network)
      fail(ErrorKind::invalid_argument, "merge: ranks 0 and {} have not the same network", r);
  }
}

}  // namespace

lossy::Recipe exchange::recipe_of(lossy::Recipe method, bool is_exact) {
  if (is_exact) method.dense_below = UINT64_MAX;
  return method;
}

lossy::TensorCoder& exchange::LossyParameters::coder(const LossyTensor& tensor) {
  const bool is_exact = tensor.exact || recipe.is_dense(tensor.shape);
  if (const auto known = coders.find(tensor.name); known != coders.end()) {
    check_shape(tensor.name, known->second.shape(), tensor.shape);
    check_exact(tensor.name, known->second.is_exact(), is_exact);
    return known->second;
  }
  lossy::TensorCoder coder(recipe_of(recipe, is_exact), tensor.name, tensor.shape, rank, world);
  if (const auto waiting = loaded.find(tensor.name); waiting != loaded.end()) {
    check_shape(tensor.name, waiting->second.shape, tensor.shape);
    check_exact(tensor.name, waiting->second.is_exact, is_exact);
    coder.load(waiting->second.state);
    loaded.erase(waiting);
  }
  return coders.emplace(tensor.name, std::move(coder)).first->second;
}

LossyState::LossyState(std::string_view spec, unsigned rank, unsigned world)
    : state_(std::make_unique<exchange::LossyParameters>()) {
  exchange::check_rank(rank, world);
  state_->recipe = lossy::parse_recipe(spec);
  if (state_->recipe.way == lossy::Way::table_sum) {
    state_->table.emplace(state_->recipe.table);
    lossy::lanes_for(state_->recipe.table.top, world);  // or it says that there are too many ranks
  }
  state_->rank = rank;
  state_->world = world;
}
LossyState::~LossyState() = default;
LossyState::LossyState(LossyState&&) noexcept = default;
LossyState& LossyState::operator=(LossyState&&) noexcept = default;

const std::string& LossyState::spec() const noexcept { return state_->recipe.canonical; }
std::uint64_t LossyState::step() const noexcept { return state_->step; }

void LossyState::end_step(bool applied) {
  for (auto& [name, coder] : state_->coders) applied ? coder.commit() : coder.discard();
  if (applied) ++state_->step;
}

bool LossyState::wants_samples() const noexcept {
  return state_->recipe.way == lossy::Way::learned && !state_->learned.network;
}

bool LossyState::learns_ring() const noexcept {
  return state_->recipe.way == lossy::Way::learned && state_->recipe.learned.is_ring;
}

bool LossyState::wants_network() const noexcept {
  const lossy::Recipe& recipe = state_->recipe;
  return wants_samples() && state_->step >= recipe.start + recipe.learned.learn;
}

std::vector<LearningSample> LossyState::take_samples() {
  return std::exchange(state_->learned.samples, {});
}

void LossyState::set_network(std::span<const std::uint8_t> bytes) {
  if (state_->recipe.way != lossy::Way::learned)
    fail(ErrorKind::invalid_argument, "network: {} has none", state_->recipe.name);
  state_->learned.network.emplace(lossy::Network(bytes));
  state_->learned.samples.clear();
}

std::span<const std::uint8_t> LossyState::network() const noexcept {
  if (!state_->learned.network) return {};
  return state_->learned.network->bytes();
}

std::vector<std::uint8_t> LossyState::save() const {
  Saved saved{state_->recipe.canonical, state_->rank, state_->world, state_->step, {}, {}};
  saved.network.assign(network().begin(), network().end());
  for (const auto& [name, coder] : state_->coders)
    saved.tensors.emplace(
        name, Loaded{{coder.shape().begin(), coder.shape().end()}, coder.is_exact(), coder.save()});
  for (const auto& [name, waiting] : state_->loaded) saved.tensors.emplace(name, waiting);
  return serialise(saved);
}

void LossyState::load(std::span<const std::uint8_t> bytes) {
  Saved saved = parse(bytes);
  check_spec(saved, state_->recipe.canonical);
  if (saved.rank != state_->rank || saved.world != state_->world)
    fail(ErrorKind::invalid_argument,
         "state: it is that of rank {} of {}, this is rank {} of {}; merge() makes states for "
         "another number of ranks",
         saved.rank, saved.world, state_->rank, state_->world);
  std::optional<lossy::Network> network;
  if (!saved.network.empty()) network.emplace(saved.network);
  // All of it is read before anything is replaced. Tensors that buckets refer to stay where they
  // are, so that the references hold.
  std::vector<std::pair<lossy::TensorCoder*, lossy::TensorCoder>> read;
  for (auto& [name, coder] : state_->coders) {
    lossy::TensorCoder fresh(exchange::recipe_of(state_->recipe, coder.is_exact()), name,
                             {coder.shape().begin(), coder.shape().end()}, state_->rank,
                             state_->world);
    if (const auto found = saved.tensors.find(name); found != saved.tensors.end()) {
      check_shape(name, found->second.shape, coder.shape());
      check_exact(name, found->second.is_exact, coder.is_exact());
      fresh.load(found->second.state);
      saved.tensors.erase(found);
    }
    read.emplace_back(&coder, std::move(fresh));
  }
  for (auto& [coder, fresh] : read) *coder = std::move(fresh);
  state_->loaded = std::move(saved.tensors);
  state_->step = saved.step;
  state_->learned = {std::move(network)};
}

std::vector<std::uint8_t> LossyState::merge(std::span<const std::vector<std::uint8_t>> old,
                                            unsigned rank, unsigned world) {
  exchange::check_rank(rank, world);
  if (old.empty()) fail(ErrorKind::invalid_argument, "merge: no state given");
  std::vector<Saved> ranks;
  for (const auto& bytes : old) ranks.push_back(parse(bytes));
  check_ranks(ranks);
  const lossy::Recipe recipe = lossy::parse_recipe(ranks.front().spec);
  Saved merged{ranks.front().spec, rank, world, ranks.front().step, ranks.front().network, {}};
  for (const auto& [name, first] : ranks.front().tensors) {
    std::vector<lossy::TensorCoder> coders;
    for (unsigned r = 0; r < ranks.size(); ++r) {
      const auto found = ranks[r].tensors.find(name);
      if (found == ranks[r].tensors.end())
        fail(ErrorKind::invalid_argument, "merge: rank {} has no state of {}", r, name);
      check_shape(name, first.shape, found->second.shape);
      check_exact(name, first.is_exact, found->second.is_exact);
      coders.emplace_back(exchange::recipe_of(recipe, first.is_exact), name, first.shape, r,
                          static_cast<unsigned>(ranks.size()));
      coders.back().load(found->second.state);
    }
    std::vector<const lossy::TensorCoder*> pointers;
    for (const lossy::TensorCoder& coder : coders) pointers.push_back(&coder);
    merged.tensors.emplace(name, Loaded{first.shape, first.is_exact,
                                        lossy::TensorCoder::merge(pointers, world, rank).save()});
  }
  return serialise(merged);
}

}  // namespace gradwire
