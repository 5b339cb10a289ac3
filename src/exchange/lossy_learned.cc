// What a learned method sends.
#include "exchange/lossy_learned.h"

#include <algorithm>
#include <cmath>

#include "base/fail.h"
#include "exchange/timer.h"
#include "lossy/codec/gaps.h"

namespace gradwire::exchange {
namespace {

constexpr std::size_t kFixed = 64;    // a scale, lengths
constexpr std::size_t kMostGap = 5;   // bytes of a gap, in classes with a code of their own
constexpr std::size_t kCodes = 2048;  // of the gaps' own
/// Codes are rounded to f16.
const lossy::ValueCoding kCodeValues =
    lossy::QuantiseOptions{.kind = lossy::QuantiserKind::f16, .rounding = lossy::Rounding::nearest};

std::span<std::uint32_t> part_of(lossy::Indices& indices, std::size_t first, std::size_t n) {
  return std::span(indices).subspan(first, n);
}

/// Of some indices the `count` of largest magnitudes, ascending; of equal ones the first.
lossy::Indices largest_of(std::span<const float> values, std::span<const std::uint32_t> indices,
                          std::size_t count) {
  lossy::Indices largest(indices.begin(), indices.end());
  const auto end = largest.begin() + static_cast<std::ptrdiff_t>(count);
  std::ranges::nth_element(largest, end, [&](std::uint32_t a, std::uint32_t b) {
    const float x = std::fabs(values[a]), y = std::fabs(values[b]);
    return x > y || (x == y && a < b);
  });
  largest.erase(end, largest.end());
  std::ranges::sort(largest);
  return largest;
}

/// One where all values are zero.
float root_mean_square(std::span<const float> values) noexcept {
  double sum = 0;
  for (const float v : values) sum += static_cast<double>(v) * v;
  const auto root = static_cast<float>(std::sqrt(sum / static_cast<double>(values.size())));
  return root > 0 ? root : 1.0F;
}

}  // namespace

LearnedRounds::LearnedRounds(const LossyWork& work, const std::vector<LossyPart>& tensors,
                             const RoundPlace& at, RoundRooms& rooms, LearnedState& learned)
    : LossyRounds(work, at),
      learned_(learned),
      rooms_(rooms),
      roles_({}, at.world),
      leader_(static_cast<unsigned>(work.step.step % at.world)),
      exact_(work_, tensors) {
  if (learned.network) stage_ = work_.recipe.learned.is_ring ? Stage::ring : Stage::server;
  for (const LossyPart& part : tensors) {
    if (work_.is_exact(part)) continue;
    const auto n = static_cast<std::size_t>(part.n);
    Item item{part, elements_, place_count_, part.coder->asked(work_.step), 0};
    if (stage_ == Stage::server)
      item.innovations =
          std::min(item.places, lossy::count_for_keep(work_.recipe.learned.innovation, n));
    elements_ += n;
    place_count_ += item.places;
    innovation_count_ += item.innovations;
    items_.push_back(item);
  }
  if (elements_ > INT32_MAX)
    fail(ErrorKind::limit, "{} elements: a bucket of {} has 2^31 at most", elements_,
         work_.recipe.name);
  if (learned.network) code_size_ = learned.network->code_size(place_count_);
  start();
}

LearnedRounds::Round LearnedRounds::round_of(std::size_t round) const noexcept {
  const std::size_t at = round + (exact_.empty() ? 1 : 0);
  const std::size_t rounds = stage_ == Stage::server ? 2 : 3;
  return static_cast<Round>(at >= rounds || (items_.empty() && at > 0) ? 3 : at);
}

void LearnedRounds::prepare(std::size_t round) {
  const Timer timer(work_.stats.encode_s);
  switch (round_of(round)) {
    case Round::places:
      take_values();
      if (leads()) choose_places();
      if (stage_ == Stage::server) choose_innovations();
      return write_places();
    case Round::values: {
      ByteReader in = places_of_.readers()[leader_];
      if (!leads()) read_places(in);
      return encode_own();
    }
    default:
      return;
  }
}

std::unique_ptr<Exchange> LearnedRounds::make(std::size_t round) {
  switch (round_of(round)) {
    case Round::exact:
      return exact_.start(at_.buckets, index_of(round), at_.place.step, at_.rank, at_.world);
    case Round::places:
      return start_messages(round, place_bounds(), places_of_);
    case Round::values:
      if (stage_ == Stage::learning)
        return start_messages(
            round,
            std::vector(at_.world,
                        kFixed + lossy::body_bound(place_count_, bucket_of(work_.recipe.values))),
            values_of_);
      code_.resize(code_size_);
      return start_exact(at_.buckets, {{code_size_, true}}, code_, index_of(round), at_.place.step,
                         at_.rank, at_.world);
    case Round::end:
      break;
  }
  return nullptr;
}

std::unique_ptr<Exchange> LearnedRounds::start_messages(std::size_t round,
                                                        const std::vector<std::size_t>& bounds,
                                                        PiecePayloads& arrived) {
  constexpr std::uint8_t kToAll = 3;
  FlowShape shape{at_.place, at_.rank, at_.world, 2, roles_};
  shape.place.bucket = index_of(round);
  shape.place.phase = kToAll;
  return std::make_unique<Messages>(shape, message_, bounds, rooms_[round], arrived);
}

/// By rank. Only the leader names places.
std::vector<std::size_t> LearnedRounds::place_bounds() const {
  std::size_t all = kFixed, leader = kFixed + kCodes + kMostGap * place_count_;
  if (stage_ == Stage::server) {
    all += lossy::body_bound(innovation_count_, bucket_of(work_.recipe.values));
    leader += lossy::body_bound(code_size_, 0);
  }
  std::vector<std::size_t> bounds(at_.world, all);
  bounds[leader_] += leader;
  return bounds;
}

void LearnedRounds::take_values() {
  for (const Item& item : items_) {
    item.part.coder->take(gradient_of(item.part), work_.step);
    work_.stats.lossy.elements += item.part.n;
    work_.stats.lossy.asked += item.places;
    work_.stats.to_owners.original += (at_.world - 1) * work_.bytes(item.part);
  }
}

void LearnedRounds::choose_places() {
  places_.resize(place_count_);
  for (const Item& item : items_) {
    lossy::TensorCoder& coder = *item.part.coder;
    const auto chosen =
        coder.choose(coder.values(gradient_of(item.part)), work_.step, work_.memory);
    std::ranges::transform(
        chosen, part_of(places_, item.place, item.places).begin(),
        [&](std::uint32_t i) { return i + static_cast<std::uint32_t>(item.first); });
  }
  gather_own();
  scale_ = root_mean_square(own_);
  work_.stats.lossy.selected += place_count_;
}

/// The largest of what this rank would choose as places.
void LearnedRounds::choose_innovations() {
  for (const Item& item : items_) {
    lossy::TensorCoder& coder = *item.part.coder;
    const std::span<const float> values = coder.values(gradient_of(item.part));
    const auto chosen = leads() ? coder.chosen() : coder.choose(values, work_.step, work_.memory);
    for (const std::uint32_t i : largest_of(values, chosen, item.innovations)) {
      innovations_.indices.push_back(i + static_cast<std::uint32_t>(item.first));
      innovations_.values.push_back(values[i]);
    }
  }
  work_.stats.lossy.selected += innovation_count_;
}

void LearnedRounds::write_places() {
  message_.clear();
  if (leads()) {
    ByteWriter out(message_);
    out.u32(std::bit_cast<std::uint32_t>(scale_));
    body_.clear();
    ByteWriter gaps(body_);
    lossy::write_gaps(places_, work_.memory.body.gaps, gaps);
    work_.stats.lossy.index += body_.size();
    append_body(body_, message_);
  }
  if (stage_ != Stage::server) return;
  if (leads()) {
    encode_code();
    append_values(code_, nullptr, kCodeValues);
  }
  append_values(innovations_.values, &innovations_.indices, work_.recipe.values);
}

/// Appends a body of all of `values`, or of those at the indices among all elements.
void LearnedRounds::append_values(std::span<float> values, const lossy::Indices* indices,
                                  const lossy::ValueCoding& coding) {
  const lossy::TensorCoder& first = *items_.front().part.coder;
  const Draws draws{first.seed_of(work_.step.step, false), 0};
  if (!lossy::code_values(values, coding, draws, work_.memory.codes, work_.memory.coded))
    fail(ErrorKind::invalid_argument, "{}: the network's code is not finite", first.name());
  const std::uint64_t n = indices == nullptr ? values.size() : elements_;
  lossy::Outline outline{.dims = {&n, 1}};
  if (indices != nullptr) {
    outline.selection = lossy::Selection::gaps;
    outline.indices = *indices;
  }
  body_.clear();
  const lossy::BodyBytes bytes = lossy::write_body(
      outline, work_.memory.coded, lossy::BodyEnd::none, 0, work_.memory.body, body_);
  work_.stats.lossy.index += bytes.index;
  work_.stats.lossy.values += bytes.values + bytes.scales;
  work_.stats.lossy.frames += bytes.whole - bytes.index - bytes.values - bytes.scales;
  append_body(body_, message_);
  lossy::restore_values(work_.memory.coded.rule, work_.memory.coded.symbols,
                        work_.memory.coded.scales, values);
}

/// This rank's values at the places.
void LearnedRounds::gather_own() {
  own_.clear();
  for (const Item& item : items_) {
    const std::span<const float> values = item.part.coder->values(gradient_of(item.part));
    for (const std::uint32_t i : part_of(places_, item.place, item.places))
      own_.push_back(values[i - item.first]);
  }
}

void LearnedRounds::encode_own() {
  if (!leads()) gather_own();
  message_.clear();
  if (stage_ == Stage::learning) return append_values(own_, nullptr, work_.recipe.values);
  encode_code();
  const Draws no_draws{0, 0};
  if (!lossy::code_values(code_, kCodeValues, no_draws, work_.memory.codes, work_.memory.coded))
    fail(ErrorKind::invalid_argument, "{}: the network's code is not finite",
         items_.front().part.coder->name());
  lossy::restore_values(work_.memory.coded.rule, work_.memory.coded.symbols,
                        work_.memory.coded.scales, code_);
  own_code_ = code_;
  work_.stats.lossy.values += work_.memory.coded.symbols.size();
}

void LearnedRounds::encode_code() {
  decoded_.resize(own_.size());
  const float factor = 1 / scale_;
  std::ranges::transform(own_, decoded_.begin(), [&](float v) { return v * factor; });
  code_.resize(code_size_);
  learned_.network->encode(decoded_, code_);
}

}  // namespace gradwire::exchange
