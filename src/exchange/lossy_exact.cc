#include "exchange/lossy_exact.h"

namespace gradwire::exchange {

std::unique_ptr<Exchange> start_exact(RoundBuckets& buckets, const RoundLayout& layout,
                                      std::vector<float>& values, std::uint32_t index,
                                      std::uint32_t step, unsigned rank, unsigned world) {
  auto found = buckets.find(layout);
  if (found == buckets.end()) {
    std::vector<BucketTensor> tensors;
    for (const auto& [n, is_factor] : layout) tensors.push_back({{n}, is_factor ? 1u : 0u});
    ExchangeOptions options;
    options.groups.emplace_back();
    ExchangeBucket made(index, DType::f32, std::move(tensors), rank, world, options);
    found = buckets.emplace(layout, std::move(made)).first;
  }
  const std::span<std::uint8_t> bytes(reinterpret_cast<std::uint8_t*>(values.data()),
                                      values.size() * sizeof(float));
  return world == 2 ? found->second.gather_merge(bytes, step) : found->second.two_shot(bytes, step);
}

ExactTensors::ExactTensors(const LossyWork& work, const std::vector<LossyPart>& tensors)
    : work_(work) {
  for (const LossyPart& part : tensors)
    if (work.is_exact(part)) parts_.push_back(part);
}

std::unique_ptr<Exchange> ExactTensors::start(RoundBuckets& buckets, std::uint32_t index,
                                              std::uint32_t step, unsigned rank, unsigned world) {
  RoundLayout layout;
  std::vector<float> room;
  values_.clear();
  for (const LossyPart& part : parts_) {
    layout.emplace_back(part.n, false);
    const std::span<const float> gradient = work_.gradient(part, room);
    values_.insert(values_.end(), gradient.begin(), gradient.end());
  }
  return start_exact(buckets, layout, values_, index, step, rank, world);
}

void ExactTensors::place() {
  const float* from = values_.data();
  for (const LossyPart& part : parts_) {
    const auto n = static_cast<std::size_t>(part.n);
    work_.put({from, n}, part);
    from += n;
  }
}

}  // namespace gradwire::exchange
