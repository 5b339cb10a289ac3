#include "exchange/lossy_table_sum.h"

#include <algorithm>
#include <bit>

#include "exchange/timer.h"
#include "lossy/transform/hadamard.h"

namespace gradwire::exchange {
TableSumRounds::TableSumRounds(const LossyWork& work, const std::vector<LossyPart>& tensors,
                               const RoundPlace& at, const lossy::TableQuantiser& quantiser)
    : LossyRounds(work, at),
      quantiser_(quantiser),
      lanes_(lossy::lanes_for(quantiser.table().top, at.world)),
      exact_(work_, tensors) {
  std::size_t norms = 0, words = 0;
  for (const LossyPart& part : tensors) {
    if (work_.is_exact(part)) continue;
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

void TableSumRounds::prepare(std::size_t round) {
  const Timer timer(work_.stats.encode_s);
  if (round_of(round) == Round::norms)
    for (const Item& item : items_) measure(item);
  if (round_of(round) == Round::words)
    for (const Item& item : items_) quantise(item);
}

std::unique_ptr<Exchange> TableSumRounds::make(std::size_t round) {
  switch (round_of(round)) {
    case Round::exact:
      return exact_.start(at_.buckets, index_of(round), at_.place.step, at_.rank, at_.world);
    case Round::norms:
      return start_additive(Reduction::i64_max, norms_, round);
    case Round::words:
      return start_additive(Reduction::i32_sum, words_, round, lanes_.most);
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
  quantiser_.decode(sums_, at_.world, item.blocks, norms_of(item), rotated_);
  rotate_back(item);
  work_.put(std::span(rotated_).first(item.blocks.values()), item.part);
}

void TableSumRounds::finish() {
  const Timer timer(work_.stats.decode_s);
  exact_.place();
  for (const Item& item : items_) decode(item);
}

}  // namespace gradwire::exchange
