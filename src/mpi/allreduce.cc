// The functions of gradwire/mpi.h.

#include <chrono>
#include <thread>

#include "mpi/channel.h"

namespace gradwire::mpi {

struct Request::State {
  std::shared_ptr<Channel> channel;
  std::shared_ptr<Operation> operation;

  State(std::shared_ptr<Channel> on, std::shared_ptr<Operation> of)
      : channel(std::move(on)), operation(std::move(of)) {}
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void finish();
};

namespace {

bool is_finalized() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  return finalized != 0;
}

/// A waiting rank leaves the core to others, and after a while sleeps: there may be more ranks than
/// cores.
void pause(unsigned idle_rounds) {
  constexpr unsigned kPatience = 2000;
  if (idle_rounds < kPatience) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

}  // namespace

void Request::State::finish() {
  unsigned idle_rounds = 0;
  while (!operation->is_over()) {
    if (channel->progress()) {
      idle_rounds = 0;
    } else {
      pause(++idle_rounds);
    }
  }
}

Request::State::~State() {
  if (!is_finalized()) finish();
}

/// Makes requests.
class Starter {
 public:
  template <typename... Given>
  static Request start(MPI_Comm comm, Given&&... given) {
    std::shared_ptr<Channel> channel = Channel::of(comm);
    std::shared_ptr<Operation> operation = channel->start(make_call(std::forward<Given>(given)...));
    Request request(std::make_unique<Request::State>(std::move(channel), std::move(operation)));
    request.state_->channel->progress();
    return request;
  }
};

Request::Request() noexcept = default;
Request::Request(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
Request::~Request() = default;
Request::Request(Request&&) noexcept = default;
Request& Request::operator=(Request&&) noexcept = default;

bool Request::test() {
  if (!state_) return true;
  if (!state_->operation->is_over()) state_->channel->progress();
  if (!state_->operation->is_over()) return false;
  if (state_->operation->error()) throw Error(*state_->operation->error());
  return true;
}

void Request::wait() {
  if (!state_) return;
  state_->finish();
  test();
}

const ExchangeStats& Request::stats() const noexcept {
  static const ExchangeStats kNone;
  return state_ ? state_->operation->stats() : kNone;
}

Request iallreduce(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
                   MPI_Op op, MPI_Comm comm, const Options& options) {
  return Starter::start(comm, Arguments{sendbuf, recvbuf, count, op, options}, datatype);
}

Request iallreduce(const void* sendbuf, void* recvbuf, MPI_Count count, DType dtype, MPI_Op op,
                   MPI_Comm comm, const Options& options) {
  return Starter::start(comm, Arguments{sendbuf, recvbuf, count, op, options}, dtype);
}

ExchangeStats allreduce(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
                        MPI_Op op, MPI_Comm comm, const Options& options) {
  Request request = iallreduce(sendbuf, recvbuf, count, datatype, op, comm, options);
  request.wait();
  return request.stats();
}

ExchangeStats allreduce(const void* sendbuf, void* recvbuf, MPI_Count count, DType dtype, MPI_Op op,
                        MPI_Comm comm, const Options& options) {
  Request request = iallreduce(sendbuf, recvbuf, count, dtype, op, comm, options);
  request.wait();
  return request.stats();
}

Request iallreduce(LossyBucket& bucket, void* data, MPI_Comm comm, const LossyStep& facts) {
  return Starter::start(comm, bucket, data, facts);
}

ExchangeStats allreduce(LossyBucket& bucket, void* data, MPI_Comm comm, const LossyStep& facts) {
  Request request = iallreduce(bucket, data, comm, facts);
  request.wait();
  return request.stats();
}

}  // namespace gradwire::mpi
