// Sharing out independent pieces of work.
// In: a count and a function of (index, worker).
// Out: all calls done.
// Assumes: calls of different indices do not touch the same data; at most `threads` workers,
// numbered from 0, run at once.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

namespace gradwire {

/// The first exception (by order of catching) is thrown again once all workers have stopped.
template <typename Function>
void parallel_for(std::size_t n, int threads, const Function& function) {
  const std::size_t workers =
      std::min<std::size_t>(n, static_cast<std::size_t>(std::max(threads, 1)));
  if (workers <= 1) {
    for (std::size_t i = 0; i < n; ++i) function(i, std::size_t{0});
    return;
  }
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error;
  const auto work = [&](std::size_t worker) {
    try {
      for (std::size_t i = next++; i < n && !failed; i = next++) function(i, worker);
    } catch (...) {
      if (!failed.exchange(true)) error = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> pool;
    pool.reserve(workers - 1);
    for (std::size_t w = 1; w < workers; ++w) pool.emplace_back(work, w);
    work(0);
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace gradwire
