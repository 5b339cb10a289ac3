#include "mpi/plans.h"

#include <algorithm>

#include "exchange/pieces.h"

namespace gradwire::mpi {
namespace {

/// Runs of whole rows with at most `split_elements` elements.
std::vector<std::vector<BucketTensor>> split(const Options& options) {
  const std::vector<exchange::Shard> whole =
      exchange::cut_bucket(options.tensors, 1, options.split_elements);
  std::vector<std::vector<BucketTensor>> runs;
  for (const exchange::Piece& run : whole[0]) {
    std::vector<BucketTensor>& tensors = runs.emplace_back();
    for (const exchange::Part& part : run.parts) tensors.push_back({part.shape});
  }
  return runs;
}

Plan make_plan(const Call& call, unsigned rank, unsigned world) {
  Plan plan{call.agreement(), {}};
  for (std::vector<BucketTensor>& tensors : split(call.options)) {
    const auto index = static_cast<std::uint32_t>(plan.buckets.size());
    plan.buckets.emplace_back(index, call.dtype, std::move(tensors), rank, world,
                              call.exchange_options());
  }
  return plan;
}

}  // namespace

Plan& Plans::find(const Call& call, unsigned rank, unsigned world) {
  const auto found = std::ranges::find(plans_, call.agreement(), &Plan::agreement);
  if (found != plans_.end()) {
    plans_.splice(plans_.begin(), plans_, found);
  } else {
    plans_.push_front(make_plan(call, rank, world));
    if (plans_.size() > kMost) plans_.pop_back();
  }
  return plans_.front();
}

}  // namespace gradwire::mpi
