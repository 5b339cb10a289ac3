#include "exchange/lossy_table_sum.h"

#include <algorithm>
#include <bit>

#include "exchange/timer.h"
#include "lossy/transform/hadamard.h"

namespace gradwire::exchange {
namespace {

template <typename T>
std::span<std::uint8_t> bytes_of(std::vector<T>& values) noexcept {
  return {reinterpret_cast<std::uint8_t*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace

TableSumRounds::TableSumRounds(const LossyWork& work, const std::vector<LossyPart>& tensors,
                               const Place& place, unsigned rank, unsigned world,
                               RoundBuckets& buckets, const lossy::TableQuantiser& quantiser)
    : work_{work.recipe, work.memory, work.dtype, work.data, work.step, counters()},
      place_(place),
      rank_(rank),
      world_(world),
      buckets_(buckets),
      quantiser_(quantiser),
      lanes_(lossy::lanes_for(quantiser.table().top, world)),
      exact_(work_, tensors) {
  std::size_t norms = 0, words = 0;
  for (const LossyPart& part : tensors) {
    if (part.coder->is_dense(work_.step.step)) continue;
    Item item{part, PowerBlocks(static_cast<std::size_t>(part.n), work_.recipe.rotation), norms,
              words};
    norms += item.blocks.count();
    words += lossy::word_count(lanes_, item.blocks.padded());
    items_.push_back(std::move(item));
  }
  norms_.resize(norms);
  words_.resize(words);
  start();
}

TableSumRounds::Round TableSumRounds::round_of(std::size_t round) const noexcept {
  const std::size_t at = round + (exact_.empty() ? 1 : 0);
  return static_cast<Round>(std::min<std::size_t>(at, items_.empty() && at > 0 ? 3 : at));
}

std::span<const float> TableSumRounds::gradient_of(const LossyPart& part) {
  return as_floats(work_.data + part.first * element_size(work_.dtype), work_.dtype,
                   static_cast<std::size_t>(part.n), room_);
}

void TableSumRounds::prepare(std::size_t round) {
  const Timer timer(work_.stats.encode_s);
  if (round_of(round) == Round::norms)
    for (const Item& item : items_) measure(item);
  if (round_of(round) == Round::words)
    for (const Item& item : items_) quantise(item);
}

std::unique_ptr<Exchange> TableSumRounds::make(std::size_t round) {
  const std::uint32_t index = round_index(place_.bucket, round);
  AdditiveBucket bucket{.index = index, .rank = rank_, .world = world_};
  switch (round_of(round)) {
    case Round::exact:
      return exact_.start(buckets_, index, place_.step, rank_, world_);
    case Round::norms:
      bucket.reduction = Reduction::i64_max;
      bucket.elements = norms_.size();
      return additive(bucket, bytes_of(norms_), place_.step);
    case Round::words:
      bucket.reduction = Reduction::i32_sum;
      bucket.elements = words_.size();
      bucket.most = lanes_.most;
      return additive(bucket, bytes_of(words_), place_.step);
    case Round::end:
      break;
  }
  return nullptr;
}

void TableSumRounds::measure(const Item& item) {
  const std::span<const float> values = item.part.coder->take(gradient_of(item.part), work_.step);
  if (!lossy::measure_norms(values, item.blocks, item_norms_)) item.part.coder->refuse(values, 0);
  std::ranges::transform(
      item_norms_, norms_.begin() + static_cast<std::ptrdiff_t>(item.first_norm),
      [](float norm) { return std::int64_t{std::bit_cast<std::uint32_t>(norm)}; });
}

std::span<const float> TableSumRounds::norms_of(const Item& item) {
  item_norms_.resize(item.blocks.count());
  for (std::size_t k = 0; k < item_norms_.size(); ++k)
    item_norms_[k] = std::bit_cast<float>(static_cast<std::uint32_t>(norms_[item.first_norm + k]));
  return item_norms_;
}

void TableSumRounds::quantise(const Item& item) {
  lossy::TensorCoder& coder = *item.part.coder;
  const std::span<const float> norms = norms_of(item);
  const std::span<const float> values = coder.values(gradient_of(item.part));
  rotated_.assign(item.blocks.padded(), 0.0F);
  std::ranges::copy(values, rotated_.begin());
  const std::uint64_t step = work_.step.step;
  lossy::rotate(rotated_, item.blocks, coder.seed_of(step, true));
  entries_.resize(item.blocks.padded());
  quantiser_.quantise(rotated_, item.blocks, norms, {coder.seed_of(step, false), 0}, entries_);
  quantiser_.to_entries(entries_, entries_);
  lossy::pack_entries(
      entries_, lanes_,
      std::span(words_).subspan(item.first_word, lossy::word_count(lanes_, entries_.size())));
  if (coder.has_feedback()) {
    quantiser_.decode(entries_, item.blocks, norms, rotated_);
    rotate_back(item);
    coder.note_sent(std::span(rotated_).first(item.blocks.values()));
  }
  work_.stats.lossy.elements += item.part.n;
  work_.stats.lossy.asked += item.part.n;
  work_.stats.lossy.selected += item.part.n;
  work_.stats.lossy.values +=
      4 * lossy::word_count(lanes_, entries_.size()) + 8 * item.blocks.count();
}

void TableSumRounds::rotate_back(const Item& item) {
  lossy::rotate_back(rotated_, item.blocks, item.part.coder->seed_of(work_.step.step, true));
}

void TableSumRounds::decode(const Item& item) {
  sums_.resize(item.blocks.padded());
  lossy::unpack_sums(
      std::span(words_).subspan(item.first_word, lossy::word_count(lanes_, sums_.size())), lanes_,
      sums_);
  rotated_.resize(item.blocks.padded());
  quantiser_.decode(sums_, world_, item.blocks, norms_of(item), rotated_);
  rotate_back(item);
  from_floats(std::span(rotated_).first(item.blocks.values()), work_.dtype,
              work_.data + item.part.first * element_size(work_.dtype));
}

void TableSumRounds::finish() {
  const Timer timer(work_.stats.decode_s);
  exact_.place();
  for (const Item& item : items_) decode(item);
}

}  // namespace gradwire::exchange
