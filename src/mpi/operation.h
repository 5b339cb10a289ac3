// One all-reduce over MPI as a state machine: exchanges one after the other, then everybody's
// status.
// In: a checked call; progress().
// Out: the result in the call's buffer, or an error that is the same on all ranks.
// Assumes: all ranks run their operations of a communicator in the same order, one at a time.
//
// A rank says hello (its call), sends its steps, and says how it has ended; a failure is said at
// once. Streams keep their order, so whoever waits for a step hears of the end instead, stops too,
// and takes what is still on its way. Hence no rank waits for ever, and the communicator stays
// usable.
#pragma once

#include <deque>

#include "mpi/plans.h"
#include "mpi/streams.h"
#include "mpi/verdict.h"

namespace gradwire::mpi {

/// A communicator of the library's own.
struct Group {
  MPI_Comm comm = MPI_COMM_NULL;
  unsigned rank = 0, world = 1;
};

class Operation {
 public:
  Operation(const Group& group, Call call);

  /// Does what can be done without waiting; false when that was nothing. `number` counts the
  /// operations of the communicator; plans and number stay the same from call to call. Throws when
  /// the communicator is broken.
  bool progress(Plans& plans, std::uint32_t number);
  /// True once all ranks are known to have ended.
  bool is_over() const noexcept { return over_; }
  const std::optional<Error>& error() const noexcept { return error_; }
  const ExchangeStats& stats() const noexcept { return stats_; }
  /// Ends it with an error of this rank alone.
  void abandon(const Error& error);
  /// Forgets what calls of this kind have agreed on; all ranks do it after an error.
  void forget(Plans& plans);

 private:
  struct Peer {
    std::uint64_t messages = 0;  ///< of data, that have been received or discarded
    bool ended = false;
  };
  /// A step whose messages are coming in.
  struct Incoming {
    std::uint64_t id = 0;  ///< as its exchange counts
    std::vector<std::size_t> bytes, offsets;
    Bytes received;
    std::vector<MPI_Request> requests;
    unsigned missing = 0;                ///< peers whose message is not being received yet
    std::optional<Reduction> reduction;  ///< of an all_reduce: what comes is combined
  };

  bool move(Plans& plans, std::uint32_t number);
  void start(Plans& plans);

  // Steps of this rank.
  bool advance(std::uint32_t number);
  void check_place() const;
  std::size_t exchanges() const noexcept;
  void begin_exchange(std::uint32_t number);
  bool post();
  void share_out(ExchangeStep& step) const;
  bool complete();
  void finish_exchange();

  // What peers say.
  bool listen(unsigned peer);
  bool take(unsigned peer, const Arrived& arrived);
  void hear_hello(unsigned peer, std::string text);
  void hear_end(unsigned peer, const std::string& text);
  void check_peers();

  void end(Ending ending);
  bool is_quiet();

  Group group_;
  Call call_;
  Streams streams_;
  std::vector<Peer> peers_;
  std::vector<Words> words_;
  std::vector<ExchangeBucket>* buckets_ = nullptr;  ///< of calls that are not lossy
  std::size_t bucket_ = 0;                          ///< the one that is exchanged
  std::size_t element_ = 0;  ///< where the next one begins, in bytes of the buffer
  std::unique_ptr<Exchange> exchange_;
  std::deque<Incoming> incoming_;
  std::uint64_t completed_ = 0;  ///< steps, of all exchanges together
  ExchangeStats stats_;
  std::optional<Error> error_;
  bool started_ = false, ended_ = false, over_ = false;
};

}  // namespace gradwire::mpi
