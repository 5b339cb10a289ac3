#include "exchange/lossy_work.h"

#include "frame/tensor_body.h"

namespace gradwire::exchange {
namespace {

constexpr std::size_t kSlack = frame::kTrailerSlack;

}  // namespace

void append_body(ByteSpan body, Bytes& payload) {
  ByteWriter out(payload);
  out.varint(body.size());
  out.bytes(body);
}

void append_body(ByteSpan body, const lossy::BodyBytes& bytes, std::uint64_t asked,
                 LossyBytes& total, Bytes& payload) {
  append_body(body, payload);
  if (!lossy::is_lossy_body(body)) {
    total.exact += bytes.whole;
    return;
  }
  total.elements += bytes.elements;
  total.asked += asked;
  total.selected += bytes.selected;
  total.index += bytes.index;
  total.values += bytes.values + bytes.scales;
  total.frames += bytes.whole - bytes.index - bytes.values - bytes.scales;
}

ByteSpan next_body(ByteReader& in) {
  return in.bytes("body", static_cast<std::size_t>(in.count("body length", in.left())));
}

bool PiecePayloads::take(unsigned rank, unsigned world, ByteSpan payload) {
  payloads_.resize(world);
  Bytes& kept = payloads_[rank];
  kept.assign(payload.begin(), payload.end());
  kept.resize(payload.size() + kSlack);
  return ++arrived_ == world;
}

std::vector<ByteReader> PiecePayloads::readers() const {
  std::vector<ByteReader> readers;
  for (const Bytes& payload : payloads_)
    readers.emplace_back(ByteSpan(payload).first(payload.size() - kSlack));
  return readers;
}

}  // namespace gradwire::exchange
