// Frames of lossy bodies, which tests and the golden files are made of.
#pragma once

#include <algorithm>
#include <string>

#include "base/counter_random.h"
#include "lossy/codec/body.h"
#include "lossy/codec/code_values.h"

namespace gradwire::lossy::testing {

/// A tensor that is sent.
struct Sent {
  DType dtype = DType::f32;
  std::vector<std::uint64_t> dims;
  Selection selection = Selection::all;
  Indices indices{};  ///< unless all
  std::uint64_t seed = 0;
  Coded coded{};

  std::uint64_t elements() const {
    std::uint64_t n = 1;
    for (const std::uint64_t dim : dims) n *= dim;
    return n;
  }
};

/// Heavy tails about zero, exact on every CPU.
inline std::vector<float> random_values(std::size_t n, std::uint64_t seed) {
  std::vector<float> values(n);
  const RandomKey key(seed, 0);
  for (std::size_t i = 0; i < n; ++i) {
    const float u = random_unit(key, static_cast<std::uint32_t>(i)) - 0.5F;
    values[i] = u * u * u * 0.01F;
  }
  return values;
}

/// About one element of every `step`.
inline Indices some(std::uint64_t n, std::uint32_t step, std::uint64_t seed) {
  Indices indices;
  for (std::uint32_t i = 0; i < n; ++i)
    if (random_below(seed, i, step) == 0) indices.push_back(i);
  return indices;
}

/// What a receiver of the seed draws.
inline Indices drawn(std::uint64_t n, std::size_t k, std::uint64_t seed) {
  SelectScratch scratch;
  SidcoState state;
  Indices indices;
  const std::vector<float> whole(static_cast<std::size_t>(n));
  select(whole, {.selector = Selector::random_k, .count = k, .seed = seed}, state, scratch,
         indices);
  return indices;
}

/// Indices of a table, and a scale a bucket.
inline Coded table_values(std::size_t k, std::size_t entries, std::uint64_t bucket,
                          std::uint64_t seed) {
  Coded coded;
  coded.rule.form = ValueForm::table;
  coded.rule.dtype = DType::u8;
  coded.rule.bucket = bucket;
  coded.rule.table = random_values(entries, seed + 1);
  coded.symbols.resize(k);
  for (std::size_t i = 0; i < k; ++i)
    coded.symbols[i] =
        static_cast<std::uint8_t>(random_below(seed, i, static_cast<std::uint32_t>(entries)));
  coded.scales = random_values(static_cast<std::size_t>(coded.rule.scale_count(k)), seed + 2);
  for (float& scale : coded.scales) scale = scale < 0 ? -scale : scale;
  return coded;
}

inline Bytes body_of(const Sent& sent, BodyEnd end, const Bytes& head = {}) {
  BodyMemory memory;
  Bytes bytes = head;
  const Outline outline{.dtype = sent.dtype,
                        .dims = sent.dims,
                        .selection = sent.selection,
                        .indices = sent.indices,
                        .seed = sent.seed};
  write_body(outline, sent.coded, end, 0, memory, bytes);
  return bytes;
}

inline Bytes frame_of(const Sent& sent, bool checksums) {
  const BodyEnd end = checksums ? BodyEnd::frame : BodyEnd::bare;
  Bytes head;
  ByteWriter writer(head);
  const unsigned flags = checksums ? frame::kLossy | frame::kChecksums : frame::kLossy + 0u;
  frame::write_prelude(static_cast<std::uint16_t>(flags), body_of(sent, end).size(), writer);
  return body_of(sent, end, head);
}

/// The elements of a frame, as the parts give them.
inline Bytes decode_frame(const Bytes& bytes, std::uint64_t max_output = UINT64_MAX) {
  const frame::Prelude prelude = frame::read_prelude(bytes);
  BodyPlace place;
  place.prelude = prelude.header_bytes;
  place.end = prelude.checksums() ? BodyEnd::frame : BodyEnd::bare;
  const Body body = read_body(bytes, place, max_output);
  DecodeMemory memory;
  Selected selected;
  decode_body(body, memory, selected);
  Bytes elements(static_cast<std::size_t>(body.header.bytes()));
  place_values(selected, body.header.dtype, elements);
  return elements;
}

/// The elements as the sender has them.
inline Bytes elements_of(const Sent& sent) {
  Selected selected;
  selected.all = sent.selection == Selection::all;
  selected.indices = sent.indices;
  selected.values.resize(sent.coded.symbols.size() / element_size(sent.coded.rule.dtype));
  restore_values(sent.coded.rule, sent.coded.symbols, sent.coded.scales, selected.values);
  Bytes elements(static_cast<std::size_t>(sent.elements()) * element_size(sent.dtype));
  place_values(selected, sent.dtype, elements);
  return elements;
}

}  // namespace gradwire::lossy::testing
