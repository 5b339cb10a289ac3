// Exchanges between ranks, without I/O: state machines that say what to send next and take what
// came. A transport (torch.distributed, MPI, a test) moves the bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "gradwire/dtype.h"
#include "gradwire/error.h"
#include "gradwire/options.h"

namespace gradwire {

/// One tensor of a bucket; tensors lie densely one behind the other.
struct BucketTensor {
  std::vector<std::uint64_t> shape;  ///< in memory order, so that rows are contiguous
  /// How it is coded: 0 as ExchangeOptions::compress says, k as ExchangeOptions::groups[k - 1].
  std::uint32_t group = 0;
};

/// In which order the ranks' values of an element are added.
enum class SumOrder : std::uint8_t {
  rank = 0,  ///< x0 + x1 + ... in f32 (f64 for f64), rounded once; the mean is scaled afterwards
  /// Each value is scaled and rounded to its own type, then added in the order of Gloo's ring
  /// all-reduce, which follows from the element's place in the bucket: the bits of PyTorch's
  /// DistributedDataParallel on Gloo.
  gloo = 1,
};

/// What a rank does in two_shot.
enum class Role : std::uint8_t {
  worker = 1,  ///< gives its values and gets the sums
  server = 2,  ///< owns a shard and adds the workers' values of it
  both = 3,
};

/// What all ranks must agree on before the first exchange, the coder's options aside.
struct ExchangeOptions {
  CompressOptions compress = {};
  /// For tensors that are coded otherwise. A bucket stays one exchange, with the same bits.
  std::vector<CompressOptions> groups = {};
  SumOrder order = SumOrder::rank;
  bool mean = true;                      ///< the mean over ranks, else the sum
  std::uint32_t piece_elements = 65536;  ///< elements that are encoded and sent at a time
  /// The tensors are those of one shard, and the bucket is one such shard for each rank, that of
  /// rank 0 first. Otherwise shards are cut from the bucket as suits two_shot.
  bool even_shards = false;
  /// By rank: servers own the shards and add what workers give (two_shot only, see docs/exchange.md
  /// 1). At least one worker and one server. Empty: every rank is both.
  std::vector<Role> roles = {};
};

enum class StepKind : std::uint8_t { all_to_all = 0, all_reduce = 1 };

/// What an all_reduce does with the ranks' values, element by element. The order of ranks does not
/// matter to any of these; there is none for floats, to which it would.
enum class Reduction : std::uint8_t { i32_sum = 1, u8_or = 2, i64_max = 3 };

/// A move that a transport makes with all ranks together.
/// all_to_all: `send` holds what goes to rank 0, 1, ..., of the lengths `send_bytes`; what comes
/// from rank r has `receive_bytes[r]` bytes.
/// all_reduce (of `additive` only): `send` holds this rank's values, and as many come, combined by
/// `reduction`; `send_bytes` and `receive_bytes` are empty.
struct ExchangeStep {
  std::uint64_t id = 0;
  StepKind kind = StepKind::all_to_all;
  Reduction reduction = Reduction::i32_sum;
  std::vector<std::uint8_t> send;
  std::vector<std::size_t> send_bytes, receive_bytes;
};

/// Bytes that a rank sent one way, once for each receiver.
struct WayBytes {
  std::uint64_t original = 0;  ///< of what was encoded
  std::uint64_t payload = 0;   ///< what it was encoded to, as far as it was sent
  std::uint64_t headers = 0;   ///< headers of messages
  std::uint64_t padding = 0;   ///< unused room of first messages
  std::uint64_t sent() const noexcept { return payload + headers + padding; }
};

/// Bytes of one group's tensors, both ways together, once for each receiver. Headers and padding
/// belong to no group.
struct GroupBytes {
  std::uint64_t original = 0;
  std::uint64_t payload = 0;  ///< what it was encoded to, sent or not
};

/// What a lossy method sent of this rank's tensors, once, whatever the number of receivers.
struct LossyBytes {
  std::uint64_t elements = 0;  ///< of tensors that were coded
  std::uint64_t asked = 0;     ///< of these, that the method was to send
  std::uint64_t selected = 0;  ///< of these, sent
  std::uint64_t index = 0;     ///< bytes that say which
  /// Bytes of their values, scales included; of factors, before the exact exchange codes them.
  std::uint64_t values = 0;
  std::uint64_t frames = 0;  ///< bytes around them
  std::uint64_t exact = 0;   ///< bytes of tensors that went exactly; none counted in rounds
};

/// Bytes of one exchange, by the way they went, and where its time went.
struct ExchangeStats {
  WayBytes to_owners;              ///< values, to those that add
  WayBytes from_owners;            ///< sums, sent back; what all_gather sends
  std::vector<GroupBytes> groups;  ///< by BucketTensor::group
  LossyBytes lossy;                ///< of LossyBucket
  double encode_s = 0, decode_s = 0;
};

/// An all-reduce, reduce-scatter or all-gather of one bucket. All ranks make the same steps in the
/// same order; which steps there are follows from shapes and options alone, never from data or
/// time. Steps may be in flight together: next() gives them as soon as their lengths are known.
class Exchange {
 public:
  virtual ~Exchange() = default;

  /// The next step, or nothing: then a step in flight must complete first, or the exchange is done.
  virtual std::optional<ExchangeStep> next() = 0;
  /// What came for a step, from rank 0, 1, ... one behind the other, or what an all_reduce gave.
  /// Steps complete in their order.
  /// Never throws for what a peer sent: that makes the exchange fail (see error()).
  virtual void complete(std::uint64_t id, std::span<const std::uint8_t> received) = 0;
  /// True after the last step; the bucket then holds the result unless error() is set.
  virtual bool done() const noexcept = 0;
  /// True when this rank had to stop early (done() and error() too), as it cannot know the lengths
  /// of what comes next. Peers still wait for it: the transport must break the connection, and a
  /// rank whose connection broke calls cancel() and drops the exchange.
  virtual bool lost() const noexcept = 0;
  /// Marks this rank as failed: it goes on with the steps, so that no peer waits, and tells them.
  /// A failure in the last steps reaches no peer in time: see docs/exchange.md 7.
  virtual void cancel(ErrorKind kind, const std::string& message) = 0;
  /// The first failure that this rank has seen, its own or a peer's.
  virtual const std::optional<Error>& error() const noexcept = 0;
  virtual const ExchangeStats& stats() const noexcept = 0;
};

/// The part of a session that all exchanges of a bucket share from step to step. It outlives them;
/// one exchange of a bucket runs at a time.
class ExchangeBucket {
 public:
  /// `index` names the bucket in headers and messages. `rank` of `world` ranks. Throws
  /// invalid_argument for shapes, groups, ranks or dtypes (floats only) that cannot be exchanged.
  ExchangeBucket(std::uint32_t index, DType dtype, std::vector<BucketTensor> tensors, unsigned rank,
                 unsigned world, const ExchangeOptions& options);
  ~ExchangeBucket();
  ExchangeBucket(ExchangeBucket&&) noexcept;
  ExchangeBucket& operator=(ExchangeBucket&&) noexcept;

  std::uint64_t bytes() const noexcept;
  /// Forgets what earlier steps have agreed on. All ranks call it together after a step in which
  /// one of them has failed.
  void reset();

  /// Shards go to their owners, which add them; sums go back. Each way a rank sends (W - 1) / W of
  /// a bucket. `data` is the bucket's memory: read, then overwritten; it must outlive the exchange.
  /// With `roles` workers push to the servers and pull from them; a server that is no worker ends
  /// with the sums of its own shard only.
  std::unique_ptr<Exchange> two_shot(std::span<std::uint8_t> data, std::uint32_t step);
  /// Every rank sends its whole bucket to all others and adds for itself: one way only, W - 1
  /// buckets. The same bits as two_shot. Throws invalid_argument with `roles`.
  std::unique_ptr<Exchange> gather_merge(std::span<std::uint8_t> data, std::uint32_t step);
  /// Shards go to their owners, which add them: the first half of two_shot, with the same bits.
  /// This rank's shard is overwritten, the others are only read. Needs even_shards, else throws
  /// invalid_argument.
  std::unique_ptr<Exchange> reduce_scatter(std::span<std::uint8_t> data, std::uint32_t step);
  /// Every rank sends its own shard, as it is, to all others, which put it in its place. Needs
  /// even_shards, else throws invalid_argument.
  std::unique_ptr<Exchange> all_gather(std::span<std::uint8_t> data, std::uint32_t step);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Values that can be summed as they are, and what all ranks must say alike of them (`rank` aside).
struct AdditiveBucket {
  std::uint32_t index = 0;  ///< names the bucket in messages
  unsigned rank = 0, world = 1;
  Reduction reduction = Reduction::i32_sum;
  std::uint64_t elements = 0;            ///< of 4, 1 or 8 bytes, as the reduction says
  std::uint32_t most = 0;                ///< i32_sum: largest magnitude of a value on any rank
  std::uint32_t piece_elements = 65536;  ///< elements of one step
};

/// An all-reduce of integers by the transport's own all-reduces (docs/exchange.md 8). `data` is the
/// bucket's memory: read, then overwritten; it must outlive the exchange. Throws invalid_argument
/// for ranks or sizes that do not fit, and for i32_sum unless world * most is below 2^31. A value
/// beyond `most` makes the exchange fail on all ranks, with an error that names it on its own.
std::unique_ptr<Exchange> additive(const AdditiveBucket& bucket, std::span<std::uint8_t> data,
                                   std::uint32_t step);

}  // namespace gradwire
