// Exchanges without I/O: what a transport in Python is to send next, and what came.
#include "gradwire/exchange.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <nanobind/stl/unique_ptr.h>

#include "bindings.h"
#include "gradwire/error.h"

namespace gradwire::python {
namespace {

using nb::literals::operator""_a;
using Sizes = nb::typed<nb::list, std::size_t>;
/// A tensor's shape and its group.
using GroupedShape = std::pair<Shape, std::uint32_t>;
/// id, bytes to send, how many of them go to rank 0, 1, ..., how many come from each, and of an
/// all-reduce of these bytes how they are combined.
using StepTuple = nb::typed<nb::tuple, std::uint64_t, OwnedBytes, Sizes, Sizes, nb::str>;
/// kind, its name, message.
using ErrorTuple = nb::typed<nb::tuple, int, nb::str, nb::str>;

void make_bucket(ExchangeBucket* place, std::uint32_t index, std::string_view dtype,
                 const std::vector<GroupedShape>& shapes, unsigned rank, unsigned world,
                 const CompressOptions& compress, SumOrder order, bool mean,
                 std::uint32_t piece_elements, bool even_shards,
                 const std::vector<CompressOptions>& groups) {
  std::vector<BucketTensor> tensors;
  for (const auto& [shape, group] : shapes) tensors.push_back({shape, group});
  const ExchangeOptions options{.compress = compress,
                                .groups = groups,
                                .order = order,
                                .mean = mean,
                                .piece_elements = piece_elements,
                                .even_shards = even_shards};
  new (place) ExchangeBucket(index, parse_dtype(dtype), std::move(tensors), rank, world, options);
}

std::unique_ptr<Exchange> two_shot(ExchangeBucket& bucket, const OutputBytes& data,
                                   std::uint32_t step) {
  return bucket.two_shot(span_of(data), step);
}

std::unique_ptr<Exchange> gather_merge(ExchangeBucket& bucket, const OutputBytes& data,
                                       std::uint32_t step) {
  return bucket.gather_merge(span_of(data), step);
}

std::unique_ptr<Exchange> reduce_scatter(ExchangeBucket& bucket, const OutputBytes& data,
                                         std::uint32_t step) {
  return bucket.reduce_scatter(span_of(data), step);
}

std::unique_ptr<Exchange> all_gather(ExchangeBucket& bucket, const OutputBytes& data,
                                     std::uint32_t step) {
  return bucket.all_gather(span_of(data), step);
}

Sizes to_list(const std::vector<std::size_t>& sizes) {
  Sizes list;
  for (const std::size_t size : sizes) list.append(size);
  return list;
}

/// Empty for an all_to_all.
const char* reduction_name(const ExchangeStep& step) {
  if (step.kind != StepKind::all_reduce) return "";
  switch (step.reduction) {
    case Reduction::i32_sum:
      return "i32_sum";
    case Reduction::u8_or:
      return "u8_or";
    case Reduction::i64_max:
      return "i64_max";
  }
  return "";
}

std::optional<StepTuple> next_step(Exchange& exchange) {
  std::optional<ExchangeStep> step;
  {
    const nb::gil_scoped_release released;
    step = exchange.next();
  }
  if (!step) return std::nullopt;
  return StepTuple(nb::make_tuple(step->id, to_array(std::move(step->send)),
                                  to_list(step->send_bytes), to_list(step->receive_bytes),
                                  reduction_name(*step)));
}

void complete(Exchange& exchange, std::uint64_t id, const InputBytes& received) {
  const nb::gil_scoped_release released;
  exchange.complete(id, span_of(received));
}

std::optional<ErrorTuple> error_tuple(const Exchange& exchange) {
  const std::optional<Error>& error = exchange.error();
  if (!error) return std::nullopt;
  return ErrorTuple(nb::make_tuple(static_cast<int>(error->kind()), error_kind_name(error->kind()),
                                   error->what()));
}

Fields way_fields(const WayBytes& way) {
  Fields fields;
  fields["original"] = way.original;
  fields["payload"] = way.payload;
  fields["header"] = way.headers;
  fields["padding"] = way.padding;
  return fields;
}

nb::typed<nb::list, Fields> group_fields(const std::vector<GroupBytes>& groups) {
  nb::typed<nb::list, Fields> list;
  for (const GroupBytes& group : groups) {
    Fields fields;
    fields["original"] = group.original;
    fields["payload"] = group.payload;
    list.append(fields);
  }
  return list;
}

Fields lossy_fields(const LossyBytes& lossy) {
  Fields fields;
  fields["elements"] = lossy.elements;
  fields["asked"] = lossy.asked;
  fields["selected"] = lossy.selected;
  fields["index"] = lossy.index;
  fields["values"] = lossy.values;
  fields["frames"] = lossy.frames;
  fields["exact"] = lossy.exact;
  return fields;
}

Fields stats_fields(const Exchange& exchange) {
  const ExchangeStats& stats = exchange.stats();
  Fields fields;
  fields["to_owners"] = way_fields(stats.to_owners);
  fields["from_owners"] = way_fields(stats.from_owners);
  fields["groups"] = group_fields(stats.groups);
  fields["lossy"] = lossy_fields(stats.lossy);
  fields["encode_s"] = stats.encode_s;
  fields["decode_s"] = stats.decode_s;
  return fields;
}

void cancel(Exchange& exchange, int kind, const std::string& message) {
  exchange.cancel(static_cast<ErrorKind>(kind), message);
}

}  // namespace

void bind_exchange(nb::module_& module) {
  nb::enum_<SumOrder>(module, "SumOrder")
      .value("rank", SumOrder::rank)
      .value("gloo", SumOrder::gloo);
  nb::class_<Exchange>(module, "Exchange")
      .def("next", &next_step)
      .def("complete", &complete, "id"_a, "received"_a.noconvert())
      .def("done", &Exchange::done)
      .def("lost", &Exchange::lost)
      .def("cancel", &cancel, "kind"_a, "message"_a)
      .def("error", &error_tuple)
      .def("stats", &stats_fields);
  // An exchange works on the memory of its bucket and of its data: it keeps both.
  nb::class_<ExchangeBucket>(module, "ExchangeBucket")
      .def("__init__", &make_bucket, "index"_a, "dtype"_a, "shapes"_a, "rank"_a, "world"_a,
           "options"_a, "order"_a, "mean"_a, "piece_elements"_a, "even_shards"_a = false,
           "groups"_a = std::vector<CompressOptions>())
      .def("bytes", &ExchangeBucket::bytes)
      .def("reset", &ExchangeBucket::reset)
      .def("two_shot", &two_shot, "data"_a.noconvert(), "step"_a, nb::keep_alive<0, 1>(),
           nb::keep_alive<0, 2>())
      .def("gather_merge", &gather_merge, "data"_a.noconvert(), "step"_a, nb::keep_alive<0, 1>(),
           nb::keep_alive<0, 2>())
      .def("reduce_scatter", &reduce_scatter, "data"_a.noconvert(), "step"_a,
           nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>())
      .def("all_gather", &all_gather, "data"_a.noconvert(), "step"_a, nb::keep_alive<0, 1>(),
           nb::keep_alive<0, 2>());
}

}  // namespace gradwire::python
