// The state as bytes: version (u8, 1), kind (u8), rows, columns, matrix_rank, steps (varints), then
// the factor that the next step starts from: f32, column after column.
#include <limits>

#include "base/fail.h"
#include "lossy/low_rank/low_rank.h"

namespace gradwire::lossy {
namespace {

constexpr std::uint8_t kVersion = 1;
constexpr float kLimit = 0x1p120F;  // of a factor as `finish` takes it
constexpr const char* kKindNames[] = {"powersgd", "acpsgd"};

const char* name_of(std::uint8_t kind) { return kind < 2 ? kKindNames[kind] : "unknown"; }

}  // namespace

Bytes LowRank::save() const {
  Bytes bytes;
  ByteWriter out(bytes);
  out.u8(kVersion);
  out.u8(static_cast<std::uint8_t>(options_.kind));
  out.varint(view_.rows);
  out.varint(view_.columns);
  out.varint(matrix_rank_);
  out.varint(steps_);
  out.bytes(bytes_of(warm_));
  return bytes;
}

void LowRank::load(ByteSpan bytes) {
  constexpr auto kInvalid = ErrorKind::invalid_argument;
  ByteReader reader(bytes);
  if (const std::uint8_t version = reader.u8("low_rank state, version"); version != kVersion)
    fail(ErrorKind::unsupported, "low_rank state of '{}': version {}, this build reads {}", name_,
         version, kVersion);
  const std::uint8_t kind = reader.u8("low_rank state, kind");
  if (kind != static_cast<std::uint8_t>(options_.kind))
    fail(kInvalid,
         "low_rank state of '{}': saved by {}, this run uses {}; resume with the method of the "
         "checkpoint, or start without its low-rank state",
         name_, name_of(kind), name_of(static_cast<std::uint8_t>(options_.kind)));
  const std::uint64_t rows = reader.varint("low_rank state, rows");
  const std::uint64_t columns = reader.varint("low_rank state, columns");
  if (rows != view_.rows || columns != view_.columns)
    fail(kInvalid,
         "low_rank state of '{}': saved for a matrix of {} x {}, the parameter's is {} x {}", name_,
         rows, columns, view_.rows, view_.columns);
  const std::uint64_t matrix_rank = reader.varint("low_rank state, matrix_rank");
  if (matrix_rank != matrix_rank_)
    fail(kInvalid,
         "low_rank state of '{}': saved with matrix_rank {}, this run uses {}; load it with {} and "
         "change the matrix_rank then",
         name_, matrix_rank, matrix_rank_, matrix_rank);
  const std::uint64_t steps =
      reader.count("low_rank state, steps", std::numeric_limits<std::int64_t>::max() - 1);
  const bool right = options_.kind == LowRankKind::powersgd || steps % 2 == 0;
  std::vector<float> warm =
      read_floats(reader, "low_rank state, factor", matrix_rank_ * side(right), kLimit);
  reader.expect_end("low_rank state");
  warm_ = std::move(warm);
  steps_ = steps;
  stage_ = Stage::idle;
}

}  // namespace gradwire::lossy
