#include "progress.h"

#include <algorithm>
#include <cstdio>
#include <unistd.h>
#include <utility>

#include "errors.h"
#include "formatted.h"

namespace gradwire::cli {
namespace {

double seconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

Progress::Progress(std::string label, std::uint64_t total_bytes, bool is_quiet)
    : label_(printable(label)),
      total_bytes_(total_bytes),
      is_shown_(!is_quiet && ::isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() {
  if (is_drawn_) std::fputs("\r\x1b[K", stderr);
}

void Progress::advance(std::uint64_t bytes) {
  constexpr double kQuietSeconds = 1.0, kBetweenSeconds = 0.1;
  done_bytes_ += bytes;
  const Clock::time_point now = Clock::now();
  if (!is_shown_ || seconds(now - start_) < kQuietSeconds) return;
  if (is_drawn_ && seconds(now - last_) < kBetweenSeconds) return;
  last_ = now;
  draw(seconds(now - start_));
}

void Progress::draw(double elapsed_s) {
  constexpr std::size_t kBarWidth = 24;
  const double share =
      total_bytes_ == 0
          ? 1.0
          : std::min(1.0, static_cast<double>(done_bytes_) / static_cast<double>(total_bytes_));
  const auto filled = static_cast<std::size_t>(share * kBarWidth);
  const std::string line =
      formatted("\r\x1b[K{} [{}{}] {:3.0f} %  {:.0f} MB/s", label_, std::string(filled, '#'),
                std::string(kBarWidth - filled, '.'), share * 100,
                static_cast<double>(done_bytes_) / 1e6 / elapsed_s);
  std::fputs(line.c_str(), stderr);
  is_drawn_ = true;
}

}  // namespace gradwire::cli
