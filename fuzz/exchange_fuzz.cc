// In: a bucket, options, and what happens to each message on its way.
// Out: ranks that end with an error, or with what they would have had; nobody asks for more bytes
// than pieces can have.

#include <algorithm>

#include "base/hash.h"
#include "exchange/loopback.h"
#include "exchange/roles.h"
#include "exchange/settings.h"
#include "exchange/wire.h"
#include "fuzz_input.h"

namespace {

using namespace gradwire;
using exchange::kPieceHeader;
using fuzz::expect;
using fuzz::FuzzInput;

enum class Mode : std::uint8_t { two_shot, gather_merge, server, additive, working_server };

struct Job {
  DType dtype;
  unsigned world;
  Mode mode;
  ExchangeOptions options;
  std::vector<BucketTensor> tensors;
  std::uint64_t elements = 0;
};

Job draw_job(FuzzInput& in) {
  constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16, DType::f64};
  Job job{kTypes[in.between(0, 3)],
          static_cast<unsigned>(in.between(2, 3)),
          static_cast<Mode>(in.between(0, 4)),
          {},
          {}};
  job.options.order = in.flag() ? SumOrder::gloo : SumOrder::rank;
  job.options.piece_elements = static_cast<std::uint32_t>(in.between(16, 400));
  job.options.compress.level = static_cast<int>(in.between(1, 3));
  for (std::uint64_t k = in.between(1, 3); k > 0; --k) {
    job.tensors.push_back({{in.between(0, 20), in.between(1, 40)}});
    job.elements += exchange::count_elements({job.tensors.back()});
  }
  if (job.mode == Mode::server || job.mode == Mode::working_server) {
    job.options.roles.assign(job.world, Role::worker);
    job.options.roles[0] = job.mode == Mode::server ? Role::server : Role::both;
  }
  return job;
}

/// Any header field but the place, and any byte behind the header; signed as a peer would.
void lie(FuzzInput& in, const Job& job, unsigned from, unsigned to, Bytes& bytes) {
  const exchange::AdditionRule rule{job.dtype, job.options.order,
                                    exchange::Roles(job.options.roles, job.world).workers(),
                                    job.options.mean, job.elements};
  exchange::PieceHeader header;
  header.place = {load<std::uint32_t>(&bytes[4]),
                  load<std::uint32_t>(&bytes[8]),
                  bytes[16],
                  load<std::uint32_t>(&bytes[12]),
                  from,
                  to,
                  exchange::agreement_of(rule, job.options, job.tensors)};
  header = exchange::read_header(ByteSpan(bytes).first(kPieceHeader), header.place);
  const std::uint64_t what = in.between(0, 7);
  if (what < exchange::kAhead) header.ahead[what] = static_cast<std::uint32_t>(in.between(0, 5000));
  if (what == 4) header.length = static_cast<std::uint32_t>(in.between(0, UINT32_MAX));
  if (what == 5) header.status = in.u8();
  if (what >= 6 && bytes.size() > kPieceHeader) {
    const Bytes body = in.bytes(in.between(1, what == 6 ? 4 : 64));
    const auto at = in.between(0, bytes.size() - kPieceHeader - 1);
    for (std::size_t k = 0; k < body.size() && kPieceHeader + at + k < bytes.size(); ++k)
      bytes[kPieceHeader + at + k] ^= body[k];
    header.checksum = hash64(ByteSpan(bytes).subspan(kPieceHeader));
  }
  exchange::write_header(header, bytes.data());
}

bool tamper(FuzzInput& in, const Job& job, unsigned from, unsigned to, Bytes& bytes) {
  if (bytes.empty()) return false;  // between workers
  switch (in.between(0, 7)) {
    case 1:
      bytes[in.between(0, bytes.size() - 1)] ^= in.u8();
      return true;
    case 2:
      bytes.resize(in.between(0, bytes.size() + 10));
      return true;
    case 3:
    case 4:
    case 5:
      if (job.mode == Mode::additive) return false;  // has no headers
      lie(in, job, from, to, bytes);
      return true;
    default:
      return false;
  }
}

/// A rank that a transport would ask for memory.
class Bounded final : public Exchange {
 public:
  Bounded(std::unique_ptr<Exchange> inner, std::size_t most)
      : inner_(std::move(inner)), most_(most) {}
  std::optional<ExchangeStep> next() override {
    std::optional<ExchangeStep> step = inner_->next();
    if (!step) return step;
    for (const std::size_t bytes : step->receive_bytes)
      expect(bytes <= most_, "a rank asks for no more than pieces can have");
    return step;
  }
  void complete(std::uint64_t id, ByteSpan received) override { inner_->complete(id, received); }
  bool done() const noexcept override { return inner_->done(); }
  bool lost() const noexcept override { return inner_->lost(); }
  void cancel(ErrorKind kind, const std::string& text) override { inner_->cancel(kind, text); }
  const std::optional<Error>& error() const noexcept override { return inner_->error(); }
  const ExchangeStats& stats() const noexcept override { return inner_->stats(); }

 private:
  std::unique_ptr<Exchange> inner_;
  std::size_t most_;
};

std::unique_ptr<Exchange> start(const Job& job, ExchangeBucket& bucket, unsigned rank,
                                Bytes& data) {
  if (job.mode == Mode::gather_merge) return bucket.gather_merge(data, 1);
  if (job.mode != Mode::additive) return bucket.two_shot(data, 1);
  const bool sums = job.dtype == DType::f32;
  const AdditiveBucket bytes{.rank = rank,
                             .world = job.world,
                             .reduction = sums ? Reduction::i32_sum : Reduction::u8_or,
                             .elements = sums ? data.size() / 4 : data.size(),
                             .most = INT32_MAX / job.world,
                             .piece_elements = job.options.piece_elements};
  for (std::size_t at = 3; sums && at < data.size(); at += 4) data[at] = 0;  // within `most`
  return additive(bytes, data, 1);
}

/// True if a message was changed.
bool run(const Job& job, std::vector<ExchangeBucket>& buckets, std::vector<Bytes>& data,
         std::vector<Bounded>& ranks, FuzzInput& in) {
  const std::size_t most = 2 * (std::size_t{job.options.piece_elements} * 8 + 3 * 600) + 4096;
  for (unsigned r = 0; r < job.world; ++r)
    ranks.emplace_back(start(job, buckets[r], r, data[r]), most);
  std::vector<Exchange*> pointers;
  for (Bounded& rank : ranks) pointers.push_back(&rank);
  bool changed = false;
  exchange::Loopback loopback(pointers, in.u8(),
                              [&](std::uint64_t, unsigned from, unsigned to, Bytes& bytes) {
                                if (in.left() > 0) changed |= tamper(in, job, from, to, bytes);
                              });
  try {
    loopback.run();
  } catch (const Error& error) {
    expect(changed && error.kind() == ErrorKind::transport, "only a lie makes lengths differ");
  }
  return changed;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  FuzzInput in(input, size);
  const Job job = draw_job(in);
  std::vector<ExchangeBucket> buckets;
  std::vector<Bytes> data;
  for (unsigned r = 0; r < job.world; ++r) {
    buckets.emplace_back(0, job.dtype, job.tensors, r, job.world, job.options);
    data.push_back(in.bytes(std::min<std::size_t>(buckets[r].bytes(), 64)));
    data.back().resize(buckets[r].bytes());
  }
  std::vector<Bounded> ranks;
  if (run(job, buckets, data, ranks, in)) return 0;
  for (unsigned r = 0; r < job.world; ++r) {
    expect(ranks[r].done() && !ranks[r].error(), "without a change all ranks are done");
    // The only server owns everything.
    expect(data[r] == data[0], "and have the same bits");
  }
  return 0;
}
