// What tests of lossy exchanges share: all ranks of a method in one process.
#pragma once

#include <cmath>
#include <numeric>

#include "base/bytes.h"
#include "base/counter_random.h"
#include "error_testing.h"
#include "exchange/loopback.h"
#include "gradwire/lossy.h"
#include "learned_testing.h"

namespace gradwire::testing {

using exchange::Loopback;
using Floats = std::vector<float>;

template <typename Call>
void expect_error(ErrorKind kind, std::string_view words, const Call& call) {
  const std::string message = refusal(kind, call);
  EXPECT_NE(message.find(words), std::string::npos) << message;
}

inline const std::vector<LossyTensor> kTensors{
    {"embedding", {300, 40}}, {"bias", {40}}, {"weight", {64, 50}}, {"scale", {}}, {"one", {1, 1}}};

inline std::size_t count(const std::vector<LossyTensor>& tensors) {
  std::size_t total = 0;
  for (const LossyTensor& tensor : tensors)
    total += std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::size_t{1},
                             std::multiplies<>());
  return total;
}

inline Floats gradient(std::size_t n, std::uint64_t seed) {
  Floats values(n);
  for (std::size_t i = 0; i < n; ++i) {
    const float u = random_unit(RandomKey(seed, 0), static_cast<std::uint32_t>(i)) - 0.5F;
    values[i] = u * u * u;
  }
  return values;
}

/// All ranks of a method, one bucket each. A learned method that wants a network from the start
/// (learn=0) has one.
struct World {
  World(const std::string& spec, unsigned world, const std::vector<LossyTensor>& tensors = kTensors)
      : n(count(tensors)), data(world) {
    for (unsigned r = 0; r < world; ++r) {
      states.push_back(std::make_unique<LossyState>(spec, r, world));
      if (states[r]->wants_network()) states[r]->set_network(identity_network());
      buckets.emplace_back(*states[r], 0, DType::f32, tensors);
    }
  }

  /// The mean of every rank's gradient; of rank r it is gradient(n, seed + r).
  void step(std::uint64_t seed, const LossyStep& facts = {}) {
    for (unsigned r = 0; r < states.size(); ++r) data[r] = gradient(n, seed + r);
    exchange_all(facts);
    for (const auto& exchange : exchanges) {
      ASSERT_FALSE(exchange->error()) << exchange->error()->what();
    }
    for (unsigned r = 1; r < states.size(); ++r) ASSERT_EQ(data[r], data[0]) << "rank " << r;
    for (const auto& state : states) state->end_step(true);
  }

  void exchange_all(const LossyStep& facts) {
    exchanges.clear();
    std::vector<Exchange*> pointers;
    for (unsigned r = 0; r < states.size(); ++r) {
      std::span<std::uint8_t> bytes(reinterpret_cast<std::uint8_t*>(data[r].data()), 4 * n);
      exchanges.push_back(
          buckets[r].reduce(bytes, static_cast<std::uint32_t>(states[r]->step()), facts));
      pointers.push_back(exchanges.back().get());
    }
    Loopback(pointers, 1).run();
  }

  std::size_t n;
  std::vector<std::unique_ptr<LossyState>> states;
  std::vector<LossyBucket> buckets;
  std::vector<Floats> data;
  std::vector<std::unique_ptr<Exchange>> exchanges;
};

inline Floats true_mean(std::size_t n, unsigned world, std::uint64_t seed) {
  Floats mean(n, 0.0F);
  for (unsigned r = 0; r < world; ++r) {
    const Floats one = gradient(n, seed + r);
    for (std::size_t i = 0; i < n; ++i) mean[i] += one[i] / static_cast<float>(world);
  }
  return mean;
}

inline double distance(const Floats& a, const Floats& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

}  // namespace gradwire::testing
