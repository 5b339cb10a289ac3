// All-reduces over MPI, in MPI's order of arguments: exact, in a stated order, compressed on the
// way; and means by a lossy method. Of the component `mpi`: find_package(gradwire COMPONENTS mpi),
// target gradwire::mpi. See docs/mpi.md.
#pragma once

#include <cstdint>
#include <memory>
#include <mpi.h>
#include <vector>

#include "gradwire/dtype.h"
#include "gradwire/error.h"
#include "gradwire/exchange.h"
#include "gradwire/lossy.h"
#include "gradwire/options.h"

namespace gradwire::mpi {

/// By which way values travel; the bits are the same.
enum class Route : std::uint8_t {
  automatic = 0,     ///< gather_merge for two ranks, two_shot for more
  two_shot = 1,      ///< shards to owners, which add them, and sums back
  gather_merge = 2,  ///< every rank sends everything to all others
};

/// The same on all ranks, every field.
struct Options {
  CompressOptions compress = {};
  bool mean = false;                ///< the mean over ranks instead of the sum
  SumOrder order = SumOrder::rank;  ///< `gloo` depends on `split_elements`, `rank` on values alone
  Route route = Route::automatic;
  /// Shapes of the tensors in the buffer, which lie densely and have `count` elements together.
  /// Empty: one vector. Matrices compress better than vectors.
  std::vector<BucketTensor> tensors = {};
  std::uint32_t piece_elements = 65536;  ///< elements that are encoded and sent at a time
  /// Elements of one exchange; larger buffers take several, one after the other.
  std::uint64_t split_elements = std::uint64_t{1} << 30;
};

/// A non-blocking all-reduce. Nothing moves between calls of test() and wait(), on any rank. One
/// thread at a time for all calls of one communicator.
class Request {
 public:
  Request() noexcept;  ///< of nothing; test() is true
  /// Waits for the end, as peers wait for this rank; an error is dropped.
  ~Request();
  Request(Request&&) noexcept;
  Request& operator=(Request&&) noexcept;

  /// Does what can be done without waiting: at most a few pieces are encoded, or one message is
  /// decoded. True once the result is in the buffer, or throws as wait() does.
  bool test();
  /// Returns when the result is in the buffer on all ranks. Throws Error, the same on all ranks,
  /// when one has failed; the buffer is then of no use.
  void wait();
  /// What this rank has sent so far.
  const ExchangeStats& stats() const noexcept;

 private:
  friend class Starter;
  struct State;
  explicit Request(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

/// Adds `count` values of all ranks of an intracommunicator, as MPI_Allreduce does with MPI_SUM,
/// and returns what this rank has sent. `sendbuf`: MPI_IN_PLACE, or a buffer that does not overlap
/// `recvbuf`. All ranks get the same bits, or all throw the same Error: `invalid_argument` for a
/// call that one of them could fix, `transport` where calls differ, `corrupt` for damage on the
/// way. Only a call before MPI_Init, or with no intracommunicator, throws on its own rank alone.
/// The first call on a communicator duplicates it, which all ranks wait for.
ExchangeStats allreduce(const void* sendbuf, void* recvbuf, MPI_Count count,
                        MPI_Datatype datatype,  ///< MPI_FLOAT or MPI_DOUBLE
                        MPI_Op op,              ///< MPI_SUM
                        MPI_Comm comm, const Options& options = {});

/// The same for DType::bf16 and f16, which MPI has no name for, and f32 and f64.
ExchangeStats allreduce(const void* sendbuf, void* recvbuf, MPI_Count count, DType dtype, MPI_Op op,
                        MPI_Comm comm, const Options& options = {});

/// The same without waiting; buffers are the library's until the request is done. Calls of one
/// communicator are carried out one after the other, in their order, which all ranks share.
[[nodiscard]] Request iallreduce(const void* sendbuf, void* recvbuf, MPI_Count count,
                                 MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                                 const Options& options = {});
[[nodiscard]] Request iallreduce(const void* sendbuf, void* recvbuf, MPI_Count count, DType dtype,
                                 MPI_Op op, MPI_Comm comm, const Options& options = {});

/// The mean over all ranks of a bucket's tensors by its state's method, in place in `data` of
/// `bucket.bytes()` bytes: the bits that every transport of the library gives. The state is that of
/// this rank of `comm`; call its `end_step` after the buckets of a step, with false on all ranks
/// where one of them threw. Errors are those of all ranks, as above: `invalid_argument` too for a
/// gradient that is not finite, `transport` where methods, tensors, steps or `keep` differ. After
/// an error the bucket has been reset.
ExchangeStats allreduce(LossyBucket& bucket, void* data, MPI_Comm comm,
                        const LossyStep& facts = {});
/// The same without waiting; the bucket, its state and `data` stay until the request is done.
[[nodiscard]] Request iallreduce(LossyBucket& bucket, void* data, MPI_Comm comm,
                                 const LossyStep& facts = {});

}  // namespace gradwire::mpi
