// A progress bar on stderr, only where somebody watches and the work is long.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace gradwire::cli {

/// Shows nothing in the first second, nor when stderr is no terminal. Wipes its line at the end.
class Progress {
 public:
  Progress(std::string label, std::uint64_t total_bytes, bool is_quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  Progress(Progress&&) = delete;
  Progress& operator=(Progress&&) = delete;

  void advance(std::uint64_t bytes);

 private:
  void draw(double elapsed_s);

  using Clock = std::chrono::steady_clock;
  std::string label_;
  std::uint64_t total_bytes_;
  std::uint64_t done_bytes_ = 0;
  bool is_shown_;
  bool is_drawn_ = false;
  Clock::time_point start_ = Clock::now(), last_ = start_;
};

}  // namespace gradwire::cli
