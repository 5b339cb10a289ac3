#include "signals.h"

#include <array>
#include <climits>
#include <csignal>
#include <cstring>
#include <unistd.h>

#include "errors.h"

namespace gradwire::cli {
namespace {

constexpr std::array kEndingSignals = {SIGINT, SIGTERM, SIGHUP};

// Read by the handlers, which may only call functions that are safe in a signal.
std::array<char, PATH_MAX> temporary_path = {};
volatile std::sig_atomic_t has_temporary = 0;

void remove_temporary() {
  if (has_temporary != 0) ::unlink(temporary_path.data());
}

void end_by_signal(int signal) {
  remove_temporary();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void end_by_lost_input(int /*signal*/) {
  constexpr char kMessage[] =
      "gradwire: an input file became shorter, or unreadable, while in use\n";
  remove_temporary();
  if (::write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1) < 0) ::_exit(kExitIo);
  ::_exit(kExitIo);
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) return;
  action = {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kEndingSignals) sigaddset(&set, signal);
  return set;
}

}  // namespace

void install_signal_handlers() {
  for (const int signal : kEndingSignals) handle(signal, end_by_signal);
  handle(SIGBUS, end_by_lost_input);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

SignalPause::SignalPause() {
  const sigset_t set = ending_signals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

SignalPause::~SignalPause() {
  const sigset_t set = ending_signals();
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void note_temporary_file(const std::string& path) {
  has_temporary = 0;
  if (path.empty() || path.size() >= temporary_path.size()) return;
  std::memcpy(temporary_path.data(), path.c_str(), path.size() + 1);
  has_temporary = 1;
}

}  // namespace gradwire::cli
