#include "exchange/lossy_sketch_sum.h"

#include <algorithm>

#include "base/fail.h"
#include "exchange/timer.h"

namespace gradwire::exchange {
SketchSumRounds::SketchSumRounds(const LossyWork& work, const std::vector<LossyPart>& tensors,
                                 const RoundPlace& at)
    : LossyRounds(work, at), options_(work.recipe.sketch), exact_(work_, tensors) {
  std::size_t total = 0;
  for (const LossyPart& part : tensors) {
    if (work_.is_exact(part)) continue;
    items_.push_back({part, total, {}});
    total += static_cast<std::size_t>(part.n);
  }
  magnitudes_.resize(items_.size());
  integers_.resize(total);
  index_.resize(lossy::index_bytes(total, options_.block_values));
  start();
}

SketchSumRounds::Round SketchSumRounds::round_of(std::size_t round) const noexcept {
  const std::size_t at = round + (exact_.empty() ? 1 : 0);
  return static_cast<Round>(std::min<std::size_t>(at, items_.empty() && at > 0 ? 4 : at));
}

void SketchSumRounds::prepare(std::size_t round) {
  const Timer timer(work_.stats.encode_s);
  switch (round_of(round)) {
    case Round::magnitudes:
      for (std::size_t i = 0; i < items_.size(); ++i) measure(i);
      return;
    case Round::index:
      for (std::size_t i = 0; i < items_.size(); ++i) put_on_grid(i);
      return mark();
    case Round::payload:
      return fill();
    default:
      return;
  }
}

std::unique_ptr<Exchange> SketchSumRounds::make(std::size_t round) {
  switch (round_of(round)) {
    case Round::exact:
      return exact_.start(at_.buckets, index_of(round), at_.place.step, at_.rank, at_.world);
    case Round::magnitudes:
      return start_additive(Reduction::i64_max, magnitudes_, round);
    case Round::index:
      failed_before_index_ = error().has_value();
      return start_additive(Reduction::u8_or, index_, round);
    case Round::payload:
      if (!is_planned_) {
        // A failure that this rank had when it gave its index is known to all, and nobody goes on.
        // One that it has seen since may be its own alone: then the others wait for it.
        if (!failed_before_index_) give_up();
        return nullptr;
      }
      return start_additive(Reduction::i32_sum, payload_, round,
                            lossy::payload_bound(plan_, most()));
    case Round::end:
      break;
  }
  return nullptr;
}

/// The values that this rank sends of a tensor, before they are on a grid.
void SketchSumRounds::measure(std::size_t i) {
  lossy::TensorCoder& coder = *items_[i].part.coder;
  const std::span<const float> values = coder.take(gradient_of(items_[i].part), work_.step);
  coder.choose(values, work_.step, work_.memory);
  magnitudes_[i] = lossy::measure_magnitude(coder.chosen_values(values, work_.memory));
}

void SketchSumRounds::put_on_grid(std::size_t i) {
  Item& item = items_[i];
  lossy::TensorCoder& coder = *item.part.coder;
  const std::uint32_t limit = std::min(lossy::value_limit(options_, at_.world), lossy::kMostOnGrid);
  const std::uint32_t most = std::min(limit, (1u << (work_.recipe.grid_bits - 1)) - 1);
  const std::span<const float> values = coder.values(gradient_of(item.part));
  const auto grid = lossy::grid_for(magnitudes_[i], most);
  if (!grid) coder.refuse(values, 0);
  item.grid = *grid;
  const std::span<const std::uint32_t> chosen = coder.chosen();
  values_.resize(chosen.size());
  chosen_.resize(chosen.size());
  if (!lossy::to_grid(coder.chosen_values(values, work_.memory), item.grid, chosen_))
    coder.refuse(values, 0);
  for (std::size_t k = 0; k < chosen.size(); ++k) integers_[item.first + chosen[k]] = chosen_[k];
  if (!lossy::from_grid(chosen_, item.grid, 1, values_)) coder.refuse(values, 0);
  coder.note_chosen_sent(values_);
  work_.stats.lossy.elements += item.part.n;
  work_.stats.lossy.asked += coder.asked(work_.step);
  work_.stats.lossy.selected += chosen.size();
}

void SketchSumRounds::mark() {
  lossy::mark_index(integers_, options_.block_values, index_);
  own_index_ = index_;
  work_.stats.lossy.index += index_.size();
}

std::uint32_t SketchSumRounds::most() const {
  std::int32_t largest = 1;
  for (const Item& item : items_) largest = std::max(largest, item.grid.largest);
  return static_cast<std::uint32_t>(largest);
}

void SketchSumRounds::fill() {
  lossy::plan_sketch(index_, integers_.size(), options_, scratch_, plan_);
  payload_.resize(plan_.payload_values());
  is_planned_ = true;
  lossy::fill_payload(plan_, integers_, own_index_, most(), payload_);
  work_.stats.lossy.values += 4 * payload_.size();
}

void SketchSumRounds::decode(const Item& item) {
  const auto n = static_cast<std::size_t>(item.part.n);
  values_.resize(n);
  // A mean is not larger than the largest value, which was a float.
  static_cast<void>(
      lossy::from_grid(std::span(integers_).subspan(item.first, n), item.grid, at_.world, values_));
  work_.put(values_, item.part);
}

void SketchSumRounds::finish() {
  const Timer timer(work_.stats.decode_s);
  exact_.place();
  if (items_.empty()) return;
  lossy::restore_sums(plan_, payload_, integers_);
  for (const Item& item : items_) decode(item);
}

}  // namespace gradwire::exchange
