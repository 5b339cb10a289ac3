// Time that a scope takes.
// In: a number of seconds.
// Out: the number, with the time until the end of the scope added.
// Assumes: nothing.
#pragma once

#include <chrono>

namespace gradwire::exchange {

class Timer {
 public:
  explicit Timer(double& seconds) : seconds_(seconds), start_(Clock::now()) {}
  ~Timer() { seconds_ += std::chrono::duration<double>(Clock::now() - start_).count(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double& seconds_;
  Clock::time_point start_;
};

}  // namespace gradwire::exchange
