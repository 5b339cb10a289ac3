#include "mpi/channel.h"

#include <mutex>

#include "base/fail.h"

namespace gradwire::mpi {
namespace {

/// True from the begin of MPI_Finalize on, which frees communicators by itself.
bool is_finalizing = false;

int on_finalize(MPI_Comm /*comm*/, int /*key*/, void* /*value*/, void* /*extra*/) {
  is_finalizing = true;
  return MPI_SUCCESS;
}

/// MPI calls it when the user's communicator is freed, on all its ranks.
int delete_channel(MPI_Comm /*comm*/, int /*key*/, void* value, void* /*extra*/) {
  delete static_cast<std::shared_ptr<Channel>*>(value);
  return MPI_SUCCESS;
}

int make_key(MPI_Comm_delete_attr_function* on_delete) {
  int key = MPI_KEYVAL_INVALID;
  check(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &key, nullptr),
        "MPI_Comm_create_keyval");
  return key;
}

/// The attribute that holds channels. MPI deletes attributes of MPI_COMM_SELF before anything else
/// in MPI_Finalize, which is how a library hears of it.
int channel_key() {
  static std::mutex mutex;
  static int key = MPI_KEYVAL_INVALID;
  const std::lock_guard lock(mutex);
  if (key == MPI_KEYVAL_INVALID) {
    check(MPI_Comm_set_attr(MPI_COMM_SELF, make_key(on_finalize), nullptr), "MPI_Comm_set_attr");
    key = make_key(delete_channel);
  }
  return key;
}

/// What cannot be told to peers is an error of this rank alone.
void check_communicator(MPI_Comm comm) {
  int initialized = 0, finalized = 0, is_inter = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (!initialized || finalized)
    fail(ErrorKind::invalid_argument, "allreduce: called {}",
         finalized ? "after MPI_Finalize" : "before MPI_Init");
  if (comm == MPI_COMM_NULL) fail(ErrorKind::invalid_argument, "comm: MPI_COMM_NULL given");
  check(MPI_Comm_test_inter(comm, &is_inter), "MPI_Comm_test_inter");
  if (is_inter) fail(ErrorKind::invalid_argument, "comm: an intercommunicator given");
}

}  // namespace

Channel::Channel(MPI_Comm comm) {
  int rank = 0, world = 0;
  check(MPI_Comm_dup(comm, &group_.comm), "MPI_Comm_dup");
  check(MPI_Comm_set_errhandler(group_.comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check(MPI_Comm_rank(group_.comm, &rank), "MPI_Comm_rank");
  check(MPI_Comm_size(group_.comm, &world), "MPI_Comm_size");
  group_.rank = static_cast<unsigned>(rank);
  group_.world = static_cast<unsigned>(world);
}

Channel::~Channel() {
  if (!is_finalizing) MPI_Comm_free(&group_.comm);
}

std::shared_ptr<Channel> Channel::of(MPI_Comm comm) {
  check_communicator(comm);
  const int key = channel_key();
  void* value = nullptr;
  int found = 0;
  check(MPI_Comm_get_attr(comm, key, static_cast<void*>(&value), &found), "MPI_Comm_get_attr");
  if (found) return *static_cast<std::shared_ptr<Channel>*>(value);
  auto owned = std::make_unique<std::shared_ptr<Channel>>(std::make_shared<Channel>(comm));
  check(MPI_Comm_set_attr(comm, key, owned.get()), "MPI_Comm_set_attr");
  return *owned.release();
}

std::shared_ptr<Operation> Channel::start(Call call) {
  if (broken_) throw Error(*broken_);
  return queue_.emplace_back(std::make_shared<Operation>(group_, std::move(call)));
}

bool Channel::progress() {
  if (queue_.empty()) return false;
  Operation& operation = *queue_.front();
  bool moved = true;
  try {
    moved = operation.progress(plans_, number_);
  } catch (const std::exception& error) {
    break_all(Error(ErrorKind::transport, formatted("allreduce: {}; the communicator is of no use "
                                                    "any more",
                                                    error.what())));
  }
  if (queue_.empty() || !operation.is_over()) return moved;
  ++number_;
  if (operation.error()) operation.forget(plans_);  // as all ranks do, who have the same error
  queue_.pop_front();
  return true;
}

void Channel::break_all(const Error& error) {
  broken_ = error;
  for (const std::shared_ptr<Operation>& operation : queue_) operation->abandon(error);
  abandoned_.swap(queue_);
}

}  // namespace gradwire::mpi
