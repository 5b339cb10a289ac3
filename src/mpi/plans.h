// The exchange buckets of calls, kept for the next call of the same kind.
// In: calls, in the same order on all ranks.
// Out: buckets, with what they have agreed on in earlier calls.
// Assumes: all ranks ask alike, and forget together after a call that has failed on any of them.
#pragma once

#include <list>
#include <vector>

#include "mpi/call.h"

namespace gradwire::mpi {

/// A call's buffer as buckets, one behind the other.
struct Plan {
  std::string agreement;
  std::vector<ExchangeBucket> buckets;
};

class Plans {
 public:
  /// The plan of such a call; it stays until kMost other ones have been asked for.
  Plan& find(const Call& call, unsigned rank, unsigned world);
  void clear() noexcept { plans_.clear(); }

  static constexpr std::size_t kMost = 64;

 private:
  std::list<Plan> plans_;  ///< the one last used in front
};

}  // namespace gradwire::mpi
