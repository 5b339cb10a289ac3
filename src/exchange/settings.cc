#include "exchange/settings.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/fail.h"
#include "base/hash.h"
#include "exchange/pieces.h"
#include "frame/tensor_header.h"

namespace gradwire::exchange {
namespace {

constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 56;
constexpr unsigned kMaxWorld = 65536;

void check_level(const CompressOptions& options) {
  if (options.level < 1 || options.level > 3)
    fail(ErrorKind::invalid_argument, "level: {} given, 1 to 3 allowed", options.level);
}

void check_roles(unsigned world, const ExchangeOptions& options) {
  if (options.roles.empty()) return;
  if (options.roles.size() != world)
    fail(ErrorKind::invalid_argument, "roles: {} given, {} ranks need as many, or none",
         options.roles.size(), world);
  bool worker = false, server = false;
  for (const Role role : options.roles) {
    const auto number = static_cast<unsigned>(role);
    if (number < 1 || number > 3)
      fail(ErrorKind::invalid_argument, "roles: {} is none of them", number);
    worker |= role != Role::server;
    server |= role != Role::worker;
  }
  if (!worker || !server)
    fail(ErrorKind::invalid_argument, "roles: no {} given, at least one needed",
         worker ? "server" : "worker");
  if (options.even_shards)
    fail(ErrorKind::invalid_argument, "roles: with even_shards every rank owns a shard");
}

}  // namespace

void check_rank(unsigned rank, unsigned world) {
  if (world > kMaxWorld)
    fail(ErrorKind::invalid_argument, "{} ranks given, at most {} allowed", world, kMaxWorld);
  if (rank >= world)
    fail(ErrorKind::invalid_argument, "rank {} of {} ranks does not exist", rank, world);
}

void check_piece_elements(std::uint32_t piece_elements) {
  if (piece_elements == 0)
    fail(ErrorKind::invalid_argument, "piece_elements: 0 given, at least 1 needed");
}

void check_settings(DType dtype, unsigned rank, unsigned world, const ExchangeOptions& options) {
  if (!is_float(dtype))
    fail(ErrorKind::invalid_argument, "dtype {}: only f32, bf16, f16 and f64 are added",
         dtype_name(dtype));
  check_rank(rank, world);
  check_piece_elements(options.piece_elements);
  check_level(options.compress);
  for (const CompressOptions& group : options.groups) check_level(group);
  check_roles(world, options);
}

void check_groups(const std::vector<BucketTensor>& tensors, const ExchangeOptions& options) {
  for (const BucketTensor& tensor : tensors) {
    if (tensor.group > options.groups.size())
      fail(ErrorKind::invalid_argument, "group: {} given, 0 to {} allowed", tensor.group,
           options.groups.size());
  }
}

std::uint64_t count_elements(const std::vector<BucketTensor>& tensors) {
  std::uint64_t total = 0;
  for (const BucketTensor& tensor : tensors) {
    if (tensor.shape.size() > frame::kMaxDimensions)
      fail(ErrorKind::invalid_argument, "shape: {} dimensions given, at most {} allowed",
           tensor.shape.size(), frame::kMaxDimensions);
    std::uint64_t n = 1;
    for (const std::uint64_t dim : tensor.shape) {
      const std::uint64_t factor = std::max<std::uint64_t>(dim, 1);
      if (factor > kMaxElements / n)
        fail(ErrorKind::invalid_argument, "shape: more than 2^56 elements");
      n *= factor;
    }
    total += element_count(tensor);
    if (total > kMaxElements) fail(ErrorKind::invalid_argument, "tensors: more than 2^56 elements");
  }
  return total;
}

std::uint64_t bucket_elements(const std::vector<BucketTensor>& tensors, unsigned world,
                              const ExchangeOptions& options) {
  const std::uint64_t total = count_elements(tensors);
  if (!options.even_shards) return total;
  if (total > kMaxElements / world)
    fail(ErrorKind::invalid_argument, "tensors: {} shards have more than 2^56 elements", world);
  return total * world;
}

std::uint64_t agreement_of(const AdditionRule& rule, const ExchangeOptions& options,
                           const std::vector<BucketTensor>& tensors) {
  Bytes bytes;
  ByteWriter out(bytes);
  out.u8(static_cast<std::uint8_t>(rule.dtype));
  out.u8(static_cast<std::uint8_t>(rule.order));
  out.u8(static_cast<std::uint8_t>((rule.mean ? 1 : 0) | (options.even_shards ? 2 : 0)));
  out.u32(rule.world);
  out.u32(options.piece_elements);
  for (const BucketTensor& tensor : tensors) {
    out.varint(tensor.shape.size());
    for (const std::uint64_t dim : tensor.shape) out.u64(dim);
  }
  for (const Role role : options.roles) out.u8(static_cast<std::uint8_t>(role));
  return hash64(bytes);
}

}  // namespace gradwire::exchange
