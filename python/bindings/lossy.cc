// Lossy means between ranks: what a rank keeps of a model's parameters, and buckets that refer to
// it.
#include "gradwire/lossy.h"

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>

#include "bindings.h"

namespace gradwire::python {
namespace {

using nb::literals::operator""_a;
/// A bucket's tensor: name, shape, whether it goes exactly.
using NamedShape = std::tuple<std::string, Shape, bool>;

std::span<const std::uint8_t> bytes_of(const nb::bytes& bytes) {
  return {static_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

nb::bytes merge_states(const std::vector<nb::bytes>& old, unsigned rank, unsigned world) {
  std::vector<std::vector<std::uint8_t>> states;
  for (const nb::bytes& state : old) {
    const auto bytes = bytes_of(state);
    states.emplace_back(bytes.begin(), bytes.end());
  }
  return to_bytes(LossyState::merge(states, rank, world));
}

void make_lossy_bucket(LossyBucket* place, LossyState& state, std::uint32_t index,
                       std::string_view dtype, const std::vector<NamedShape>& shapes) {
  std::vector<LossyTensor> tensors;
  for (const auto& [name, shape, exact] : shapes) tensors.push_back({name, shape, exact});
  new (place) LossyBucket(state, index, parse_dtype(dtype), std::move(tensors));
}

std::unique_ptr<Exchange> start_lossy(LossyBucket& bucket, const OutputBytes& data,
                                      std::uint32_t step, std::optional<double> keep,
                                      float learning_rate_ratio,
                                      std::optional<double> gradient_norm) {
  return bucket.reduce(span_of(data), step, {keep, learning_rate_ratio, gradient_norm});
}

/// (leader, values of shape (world, places)) by bucket.
nb::list take_samples(LossyState& state) {
  nb::list samples;
  for (LearningSample& sample : state.take_samples()) {
    auto* values = new std::vector<float>(std::move(sample.values));
    const nb::capsule owner(values,
                            [](void* p) noexcept { delete static_cast<std::vector<float>*>(p); });
    const std::size_t world = sample.world;
    samples.append(nb::make_tuple(
        sample.leader,
        nb::ndarray<nb::numpy, float>(values->data(), {world, values->size() / world}, owner)));
  }
  return samples;
}

nb::bytes network_of(const LossyState& state) {
  const auto bytes = state.network();
  return nb::bytes(bytes.data(), bytes.size());
}

}  // namespace

void bind_lossy(nb::module_& module) {
  nb::class_<LossyState>(module, "LossyState")
      .def(nb::init<std::string_view, unsigned, unsigned>(), "spec"_a, "rank"_a, "world"_a)
      .def_prop_ro("spec", &LossyState::spec)
      .def_prop_ro("step", &LossyState::step)
      .def("end_step", &LossyState::end_step, "applied"_a)
      .def("save", [](const LossyState& state) { return to_bytes(state.save()); })
      .def(
          "load", [](LossyState& state, const nb::bytes& bytes) { state.load(bytes_of(bytes)); },
          "state"_a)
      .def_prop_ro("wants_samples", &LossyState::wants_samples)
      .def_prop_ro("wants_network", &LossyState::wants_network)
      .def("take_samples", &take_samples)
      .def(
          "set_network",
          [](LossyState& state, const nb::bytes& network) { state.set_network(bytes_of(network)); },
          "network"_a)
      .def_prop_ro("network", &network_of)
      .def_prop_ro("learns_ring", &LossyState::learns_ring)
      .def_static("merge", &merge_states, "states"_a, "rank"_a, "world"_a);
  nb::class_<LossyBucket>(module, "LossyBucket")
      .def("__init__", &make_lossy_bucket, "state"_a, "index"_a, "dtype"_a, "tensors"_a,
           nb::keep_alive<1, 2>())
      .def("bytes", &LossyBucket::bytes)
      .def("reset", &LossyBucket::reset)
      .def("start", &start_lossy, "data"_a.noconvert(), "step"_a, "keep"_a = nb::none(),
           "learning_rate_ratio"_a = 1.0F, "gradient_norm"_a = nb::none(), nb::keep_alive<0, 1>(),
           nb::keep_alive<0, 2>());
}

}  // namespace gradwire::python
