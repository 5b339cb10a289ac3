// What a learned method makes of what has come.
#include <algorithm>
#include <cmath>

#include "base/fail.h"
#include "exchange/lossy_learned.h"
#include "exchange/timer.h"
#include "lossy/codec/gaps.h"

namespace gradwire::exchange {

/// The head of the leader's message. Of a tensor as many places as it was asked for.
void LearnedRounds::read_places(ByteReader& in) {
  scale_ = std::bit_cast<float>(in.u32("scale"));
  if (!(scale_ > 0 && std::isfinite(scale_)))
    fail(ErrorKind::corrupt, "scale: {} found, a positive number needed", scale_);
  ByteReader gaps(next_body(in), in.offset());
  places_.resize(place_count_);
  lossy::read_gaps(gaps, elements_, "places", work_.memory.decode.gaps, places_);
  gaps.expect_end("places");
  for (const Item& item : items_) {
    const auto from = std::ranges::lower_bound(places_, item.first);
    const auto to = std::ranges::lower_bound(places_, item.first + item.part.n);
    if (from - places_.begin() != static_cast<std::ptrdiff_t>(item.place) ||
        to - from != static_cast<std::ptrdiff_t>(item.places))
      fail(ErrorKind::corrupt, "places: {} of {}, {} needed", to - from, item.part.coder->name(),
           item.places);
  }
}

/// A body of `selected` of n elements.
void LearnedRounds::read_values(ByteReader& in, std::uint64_t n, std::size_t selected) {
  const std::size_t origin = in.offset();
  const lossy::Body body = lossy::read_body(next_body(in), {.origin = origin}, UINT64_MAX);
  if (body.header.dims.size() != 1 || body.header.dims[0] != n || body.selected != selected ||
      (body.selection == lossy::Selection::all) != (selected == n))
    fail(ErrorKind::corrupt, "body at byte {}: {} of {} elements needed", origin, selected, n);
  lossy::decode_body(body, work_.memory.decode, work_.memory.decoded);
}

void LearnedRounds::finish() {
  const Timer timer(work_.stats.decode_s);
  exact_.place();
  if (items_.empty()) return;
  mean_.assign(elements_, 0.0F);
  switch (stage_) {
    case Stage::learning:
      add_learning();
      break;
    case Stage::ring:
      decode_code(code_);
      for (std::size_t i = 0; i < places_.size(); ++i) mean_[places_[i]] = decoded_[i];
      decode_code(own_code_);
      note_sent(places_, decoded_);
      break;
    case Stage::server:
      decode_server();
      break;
  }
  for (const Item& item : items_)
    work_.put(std::span(mean_).subspan(item.first, static_cast<std::size_t>(item.part.n)),
              item.part);
}

/// The values of all ranks, of which a sample is kept.
void LearnedRounds::add_learning() {
  if (learned_.step != work_.step.step) learned_.samples.clear();
  learned_.step = work_.step.step;
  LearningSample sample{leader_, at_.world, {}};
  const float factor = 1 / scale_, share = 1.0F / static_cast<float>(at_.world);
  for (ByteReader& in : values_of_.readers()) {
    read_values(in, place_count_, place_count_);
    in.expect_end("values");
    const std::vector<float>& values = work_.memory.decoded.values;
    for (std::size_t i = 0; i < values.size(); ++i) mean_[places_[i]] += values[i];
    for (const float v : values) sample.values.push_back(v * factor);
  }
  for (const std::uint32_t i : places_) mean_[i] *= share;
  note_sent(places_, own_);
  learned_.samples.push_back(std::move(sample));
}

/// Writes the values that a code stands for.
void LearnedRounds::decode_code(std::span<const float> code) {
  decoded_.resize(place_count_);
  learned_.network->decode(code, decoded_);
  for (float& v : decoded_) v *= scale_;
  if (!std::ranges::all_of(decoded_, [](float v) { return std::isfinite(v); }))
    fail(ErrorKind::invalid_argument, "the network makes values of the code that are not finite");
}

/// Every rank counts with the leader's values, but for the elements that it has sent by themselves;
/// what its own values differ by stays in what it keeps.
void LearnedRounds::decode_server() {
  std::vector<ByteReader> readers = places_of_.readers();
  ByteReader& in = readers[leader_];
  read_places(in);
  read_values(in, code_size_, code_size_);
  const std::vector<float> code = work_.memory.decoded.values;
  decode_code(code);
  const auto world = static_cast<float>(at_.world);
  for (std::size_t i = 0; i < places_.size(); ++i) mean_[places_[i]] = world * decoded_[i];
  for (ByteReader& reader : readers) {
    read_values(reader, elements_, innovation_count_);
    reader.expect_end("places");
    add_innovations();
  }
  for (float& v : mean_) v *= 1.0F / world;
  note_with_innovations();
}

void LearnedRounds::add_innovations() {
  const lossy::Selected& sent = work_.memory.decoded;
  for (std::size_t k = 0; k < sent.values.size(); ++k) {
    const std::uint32_t i = sent.all ? static_cast<std::uint32_t>(k) : sent.indices[k];
    const auto place = std::ranges::lower_bound(places_, i);
    const bool is_place = place != places_.end() && *place == i;
    mean_[i] += sent.values[k] - (is_place ? decoded_[place - places_.begin()] : 0.0F);
  }
}

/// What this rank counts with: its innovations, and the decoded values elsewhere.
void LearnedRounds::note_with_innovations() {
  lossy::Indices indices;
  std::vector<float> values;
  std::size_t p = 0;
  for (std::size_t k = 0; k <= innovations_.indices.size(); ++k) {
    const bool is_last = k == innovations_.indices.size();
    const std::uint64_t until = is_last ? elements_ : innovations_.indices[k];
    for (; p < places_.size() && places_[p] < until; ++p) {
      indices.push_back(places_[p]);
      values.push_back(decoded_[p]);
    }
    if (is_last) break;
    if (p < places_.size() && places_[p] == until) ++p;
    indices.push_back(innovations_.indices[k]);
    values.push_back(innovations_.values[k]);
  }
  note_sent(indices, values);
}

/// Tells the coders what this rank's part of the mean was.
void LearnedRounds::note_sent(const lossy::Indices& indices, std::span<const float> values) {
  lossy::Indices own;
  std::size_t k = 0;
  for (const Item& item : items_) {
    const std::size_t from = k;
    own.clear();
    for (; k < indices.size() && indices[k] < item.first + item.part.n; ++k)
      own.push_back(indices[k] - static_cast<std::uint32_t>(item.first));
    item.part.coder->set_chosen(own);
    item.part.coder->note_chosen_sent(values.subspan(from, k - from));
  }
}

}  // namespace gradwire::exchange
