#include "mpi/call.h"

#include <array>
#include <cstring>

#include "base/bytes.h"
#include "base/fail.h"
#include "base/hash.h"
#include "exchange/settings.h"

namespace gradwire::mpi {
namespace {

/// Of what peers say to each other in docs/mpi.md; ranks of other versions are refused by it.
constexpr int kProtocol = 1;

std::string name_of(MPI_Datatype datatype) {
  if (datatype == MPI_DATATYPE_NULL) return "MPI_DATATYPE_NULL";
  std::array<char, MPI_MAX_OBJECT_NAME> name{};
  int length = 0;
  MPI_Type_get_name(datatype, name.data(), &length);
  return length > 0 ? name.data() : "a type without a name";
}

DType dtype_of(MPI_Datatype datatype) {
  if (datatype == MPI_FLOAT) return DType::f32;
  if (datatype == MPI_DOUBLE) return DType::f64;
  fail(ErrorKind::invalid_argument,
       "datatype: {} given; MPI_FLOAT and MPI_DOUBLE are added, bf16 and f16 as gradwire::DType",
       name_of(datatype));
}

void check_arguments(const Arguments& arguments) {
  if (arguments.op != MPI_SUM)
    fail(ErrorKind::invalid_argument, "op: only MPI_SUM is done (for a mean set Options::mean)");
  if (arguments.count < 0)
    fail(ErrorKind::invalid_argument, "count: {} given", static_cast<long long>(arguments.count));
  if (arguments.options.split_elements == 0)
    fail(ErrorKind::invalid_argument, "split_elements: 0 given, at least 1 needed");
  if (arguments.options.route > Route::gather_merge)
    fail(ErrorKind::invalid_argument, "route: {} is none",
         static_cast<int>(arguments.options.route));
  if (arguments.recvbuf == MPI_IN_PLACE)
    fail(ErrorKind::invalid_argument, "recvbuf: MPI_IN_PLACE is for sendbuf");
  if (arguments.count > 0 && (arguments.recvbuf == nullptr || arguments.sendbuf == nullptr))
    fail(ErrorKind::invalid_argument, "{}: a null pointer given for {} elements",
         arguments.recvbuf == nullptr ? "recvbuf" : "sendbuf",
         static_cast<long long>(arguments.count));
}

void check_tensors(const Call& call) {
  const std::uint64_t total = exchange::count_elements(call.options.tensors);
  if (total != call.count)
    fail(ErrorKind::invalid_argument, "tensors: {} elements together, count is {}", total,
         call.count);
}

void fill(Call& call, const Arguments& arguments) {
  check_arguments(arguments);
  call.count = static_cast<std::uint64_t>(arguments.count);
  call.options = arguments.options;
  if (call.options.tensors.empty()) call.options.tensors = {{{call.count}}};
  exchange::check_settings(call.dtype, 0, 1, call.exchange_options());
  check_tensors(call);
  const auto bytes = static_cast<std::size_t>(call.count) * element_size(call.dtype);
  call.data = {static_cast<std::uint8_t*>(arguments.recvbuf), bytes};
  const bool copies = arguments.sendbuf != MPI_IN_PLACE && arguments.sendbuf != arguments.recvbuf;
  if (copies && bytes > 0) std::memcpy(arguments.recvbuf, arguments.sendbuf, bytes);
}

/// A number that stands for shapes: the lists themselves may be long.
std::uint64_t hash_of(const std::vector<BucketTensor>& tensors) {
  Bytes bytes;
  ByteWriter out(bytes);
  for (const BucketTensor& tensor : tensors) {
    out.varint(tensor.shape.size());
    for (const std::uint64_t dim : tensor.shape) out.u64(dim);
  }
  return hash64(bytes);
}

template <typename GetDType>
Call make(const Arguments& arguments, GetDType get_dtype) {
  Call call;
  try {
    call.dtype = get_dtype();
    fill(call, arguments);
  } catch (const Error& error) {
    call.error = error;
  }
  return call;
}

}  // namespace

Call make_call(const Arguments& arguments, DType dtype) {
  return make(arguments, [&] { return dtype; });
}

Call make_call(const Arguments& arguments, MPI_Datatype datatype) {
  return make(arguments, [&] { return dtype_of(datatype); });
}

Call make_call(LossyBucket& bucket, void* data, const LossyStep& facts) {
  Call call;
  call.lossy = &bucket;
  call.facts = facts;
  call.data = {static_cast<std::uint8_t*>(data), static_cast<std::size_t>(bucket.bytes())};
  if (data == nullptr && bucket.bytes() > 0)
    call.error = Error(ErrorKind::invalid_argument,
                       formatted("data: a null pointer given for {} bytes", bucket.bytes()));
  return call;
}

ExchangeOptions Call::exchange_options() const {
  return {.compress = options.compress,
          .order = options.order,
          .mean = options.mean,
          .piece_elements = options.piece_elements};
}

std::string Call::agreement() const {
  if (lossy != nullptr) return formatted("protocol {}\n", kProtocol) + lossy->agreement(facts);
  const CompressOptions& compress = options.compress;
  return formatted("protocol {}\n", kProtocol) + formatted("count {}\n", count) +
         formatted("dtype {}\n", dtype_name(dtype)) + formatted("mean {}\n", options.mean) +
         formatted("order {}\n", static_cast<int>(options.order)) +
         formatted("route {}\n", static_cast<int>(options.route)) +
         formatted("piece_elements {}\n", options.piece_elements) +
         formatted("split_elements {}\n", options.split_elements) +
         formatted("tensors {}, hash {:016x}\n", options.tensors.size(), hash_of(options.tensors)) +
         formatted("level {}\n", compress.level) +
         formatted("coder {}, tables {}, zeros {}, pairs {}, checksum {}, threads {}\n",
                   static_cast<int>(compress.coder), static_cast<int>(compress.tables),
                   static_cast<int>(compress.zeros), compress.pairs, compress.checksum,
                   compress.threads);
}

}  // namespace gradwire::mpi
