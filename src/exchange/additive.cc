// The all-reduce of what can be summed as it is (docs/exchange.md 8): pieces, then a closing step
// in which all ranks learn whether all have the same result.

#include <algorithm>
#include <bit>
#include <limits>

#include "base/fail.h"
#include "base/hash.h"
#include "exchange/flow.h"
#include "exchange/settings.h"

namespace gradwire {
namespace {

using exchange::kAhead;

constexpr std::uint64_t kLargestSum = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kNoHash = std::numeric_limits<std::int64_t>::max();
constexpr std::uint32_t kMagic = 0x31415747;  // "GWA1"

std::size_t width_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::i32_sum:
      return 4;
    case Reduction::u8_or:
      return 1;
    case Reduction::i64_max:
      return 8;
  }
  fail(ErrorKind::invalid_argument, "reduction: {} is none of them",
       static_cast<unsigned>(reduction));
}

void check_bucket(const AdditiveBucket& bucket, std::size_t bytes) {
  exchange::check_rank(bucket.rank, bucket.world);
  exchange::check_piece_elements(bucket.piece_elements);
  const std::size_t width = width_of(bucket.reduction);
  if (bytes % width != 0 || bytes / width != bucket.elements)
    fail(ErrorKind::invalid_argument, "data: {} bytes given, {} elements of {} bytes needed", bytes,
         bucket.elements, width);
  if (bucket.reduction != Reduction::i32_sum || bucket.most <= kLargestSum / bucket.world) return;
  fail(ErrorKind::invalid_argument,
       "most: {} given; the sum of {} ranks could overflow, at most {} allowed", bucket.most,
       bucket.world, kLargestSum / bucket.world);
}

/// The hash that seeds all others: of what must be alike on all ranks.
std::uint64_t place_of(const AdditiveBucket& bucket, std::uint32_t step) {
  std::uint8_t bytes[33];
  store(bytes, kMagic);
  store(bytes + 4, bucket.index);
  store(bytes + 8, step);
  bytes[12] = static_cast<std::uint8_t>(bucket.reduction);
  store(bytes + 13, bucket.most);
  store(bytes + 17, bucket.world);
  store(bytes + 21, bucket.piece_elements);
  store(bytes + 25, bucket.elements);
  return hash64(bytes);
}

/// The largest odd number whose sum over all ranks is no overflow.
std::int64_t modulus_of(unsigned world) {
  return static_cast<std::int64_t>((kLargestSum / world - 1) | 1);
}

/// A linear function of a piece's values. Weights are below the modulus, which is odd, so that a
/// flipped bit changes it.
std::int64_t check_of(ByteSpan values, std::int64_t modulus) {
  constexpr std::int64_t kMostBlock = 32768;  // 2^15 terms below 2^46 each
  const auto block = static_cast<std::size_t>(std::min(kMostBlock, modulus - 1));
  std::int64_t total = 0;
  for (std::size_t left = values.size() / 4; left > 0;) {
    const std::size_t n = std::min(block, left);
    std::int64_t sum = 0;
    for (std::size_t j = 0; j < n; ++j)
      sum += static_cast<std::int64_t>(j + 1) * load<std::int32_t>(values.data() + 4 * j);
    total = (2 * total + sum % modulus) % modulus;
    values = values.subspan(4 * n);
    left -= n;
  }
  return total < 0 ? total + modulus : total;
}

class Additive final : public Exchange {
 public:
  Additive(const AdditiveBucket& bucket, std::span<std::uint8_t> data, std::uint32_t step)
      : bucket_(bucket),
        data_(data),
        step_(step),
        width_(width_of(bucket.reduction)),
        piece_bytes_(bucket.piece_elements * width_),
        place_(place_of(bucket, step)),
        modulus_(modulus_of(bucket.world)) {
    if (bucket.world > 1 && !data.empty())
      steps_ = (data.size() + piece_bytes_ - 1) / piece_bytes_ + 1;
    if (bucket.reduction == Reduction::i32_sum) check_values();
  }

  std::optional<ExchangeStep> next() override {
    if (posted_ == steps_) return std::nullopt;
    const bool closes = posted_ + 1 == steps_;
    // The closing hashes the result, so that all pieces must have come.
    if (closes ? completed_ < posted_ : posted_ >= completed_ + kAhead) return std::nullopt;
    ExchangeStep step;
    step.id = posted_++;
    step.kind = StepKind::all_reduce;
    step.reduction = closes ? Reduction::i64_max : bucket_.reduction;
    step.send = closes ? closing() : contribution(step.id);
    return step;
  }
  void complete(std::uint64_t id, ByteSpan received) override {
    if (id != completed_ || completed_ == posted_) {
      fail(ErrorKind::invalid_argument, "step {} completed; steps {} to {} are in flight", id,
           completed_, posted_);
    }
    ++completed_;
    const bool closes = completed_ == steps_;
    const std::size_t expected = closes ? kClosingBytes : head_bytes() + piece(id).size();
    if (received.size() != expected) {
      return note(ErrorKind::transport, id,
                  formatted("{} bytes came, {} were asked for", received.size(), expected));
    }
    if (failure_.error()) return;
    closes ? take_closing(received) : take(id, received);
  }
  bool done() const noexcept override { return completed_ == steps_; }
  bool lost() const noexcept override { return false; }
  void cancel(ErrorKind kind, const std::string& message) override { failure_.note(kind, message); }
  const std::optional<Error>& error() const noexcept override { return failure_.error(); }
  const ExchangeStats& stats() const noexcept override { return stats_; }

 private:
  static constexpr std::size_t kClosingBytes = 24;

  void note(ErrorKind kind, std::uint64_t id, const std::string& what) {
    const std::string where = id + 1 == steps_ ? "closing" : formatted("piece {}", id);
    failure_.note(kind,
                  formatted("{} of bucket {}, step {}: {}", where, bucket_.index, step_, what));
  }
  std::span<std::uint8_t> piece(std::uint64_t k) const {
    const std::size_t begin = k * piece_bytes_;
    return data_.subspan(begin, std::min(piece_bytes_, data_.size() - begin));
  }
  std::size_t head_bytes() const noexcept {
    return bucket_.reduction == Reduction::i32_sum ? 4 : 0;
  }

  void check_values() {
    const std::int64_t most = bucket_.most;
    for (std::uint64_t i = 0; i < bucket_.elements; ++i) {
      const std::int64_t value = load<std::int32_t>(data_.data() + 4 * i);
      if (value <= most && value >= -most) continue;
      return failure_.note(ErrorKind::invalid_argument,
                           formatted("element {} of bucket {}, step {}: {} found, {} to {} allowed",
                                     i, bucket_.index, step_, value, -most, most));
    }
  }
  /// What a piece's check has of its place, on each rank.
  std::int64_t mark(std::uint64_t k) const {
    std::uint8_t number[8];
    store(number, k);
    return static_cast<std::int64_t>(hash64(number, place_) & 0xffffffff) % modulus_;
  }

  /// A rank that has failed gives zeros: lengths stay, and no sum grows.
  Bytes contribution(std::uint64_t k) {
    const std::span<std::uint8_t> own = piece(k);
    Bytes bytes(head_bytes() + own.size());
    if (!failure_.error())
      std::ranges::copy(own, bytes.begin() + static_cast<std::ptrdiff_t>(head_bytes()));
    if (head_bytes() > 0) {
      const std::int64_t check = check_of(ByteSpan(bytes).subspan(4), modulus_) + mark(k);
      store(bytes.data(), static_cast<std::int32_t>(check % modulus_));
    }
    stats_.to_owners.original += own.size();
    stats_.to_owners.payload += own.size();
    stats_.to_owners.headers += head_bytes();
    return bytes;
  }

  void take(std::uint64_t k, ByteSpan received) {
    const ByteSpan values = received.subspan(head_bytes());
    if (head_bytes() > 0) {
      const std::int64_t expected = check_of(values, modulus_) + bucket_.world * mark(k);
      if ((load<std::int32_t>(received.data()) - expected) % modulus_ != 0)
        return note(ErrorKind::corrupt, k, "the sums do not fit the sum of the ranks' checks");
    }
    std::ranges::copy(values, piece(k).begin());
  }

  Bytes closing() {
    Bytes bytes(kClosingBytes);
    std::int64_t status = 0;
    hash_ = std::bit_cast<std::int64_t>(hash64(data_, place_));
    if (failure_.error())
      status = std::int64_t{static_cast<std::uint8_t>(failure_.error()->kind())} << 32 |
               std::int64_t{bucket_.rank};
    store(bytes.data(), status);
    store(bytes.data() + 8, status == 0 ? hash_ : kNoHash);
    store(bytes.data() + 16, status == 0 ? -1 - hash_ : kNoHash);
    stats_.to_owners.headers += kClosingBytes;
    return bytes;
  }

  void take_closing(ByteSpan received) {
    const auto status = load<std::int64_t>(received.data());
    const auto largest = load<std::int64_t>(received.data() + 8);
    const auto least = -1 - load<std::int64_t>(received.data() + 16);
    if (status != 0) {
      const auto kind = static_cast<ErrorKind>(status >> 32);
      return note(ErrorKind::transport, steps_ - 1,
                  formatted("rank {} failed ({})", status & 0xffffffff, error_kind_name(kind)));
    }
    if (largest != hash_ || least != hash_)
      note(ErrorKind::transport, steps_ - 1,
           "the ranks differ in their results, settings or step numbers");
  }

  AdditiveBucket bucket_;
  std::span<std::uint8_t> data_;
  std::uint32_t step_;
  std::size_t width_, piece_bytes_;
  std::uint64_t place_;
  std::int64_t modulus_;
  std::int64_t hash_ = 0;  ///< of the result, once all pieces have come
  std::uint64_t steps_ = 0, posted_ = 0, completed_ = 0;
  exchange::Failure failure_;
  ExchangeStats stats_;
};

}  // namespace

std::unique_ptr<Exchange> additive(const AdditiveBucket& bucket, std::span<std::uint8_t> data,
                                   std::uint32_t step) {
  check_bucket(bucket, data.size());
  return std::make_unique<Additive>(bucket, data, step);
}

}  // namespace gradwire
