// Who gives values to an exchange, who adds them, and who talks to whom.
// In: a role for each rank.
// Out: answers.
// Assumes: check_settings has passed.
#pragma once

#include <algorithm>

#include "gradwire/exchange.h"

namespace gradwire::exchange {

class Roles {
 public:
  /// Without roles every rank is both.
  Roles(const std::vector<Role>& given, unsigned world) : roles_(given) {
    roles_.resize(given.empty() ? world : given.size(), Role::both);
    for (unsigned r = 0; r < roles_.size(); ++r) place_.push_back(workers_ += works(r) ? 1 : 0);
  }
  bool works(unsigned rank) const noexcept { return roles_[rank] != Role::server; }
  bool serves(unsigned rank) const noexcept { return roles_[rank] != Role::worker; }
  /// Whether messages go between two ranks.
  bool linked(unsigned a, unsigned b) const noexcept { return a != b && (serves(a) || serves(b)); }
  unsigned workers() const noexcept { return workers_; }
  /// The workers but for this rank.
  unsigned other_workers(unsigned rank) const noexcept { return workers_ - (works(rank) ? 1 : 0); }
  /// Which worker a rank is, from 0.
  unsigned place_of(unsigned worker) const noexcept { return place_[worker] - 1; }
  std::size_t servers() const noexcept {
    return roles_.size() - static_cast<std::size_t>(std::ranges::count(roles_, Role::worker));
  }

 private:
  std::vector<Role> roles_;
  std::vector<unsigned> place_;  ///< workers up to and with a rank
  unsigned workers_ = 0;
};

}  // namespace gradwire::exchange
