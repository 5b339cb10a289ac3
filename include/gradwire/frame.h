// Look into frames, and many tensors in one frame: archives (.gw files, batches).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gradwire/compress.h"

namespace gradwire {

struct LossyReport;  // gradwire/lossy.h

/// What stands in a tensor's frame, and what was chosen in each stage.
struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::uint64_t> shape;
  std::uint64_t elements = 0;
  std::uint64_t original_bytes = 0;
  std::uint64_t compressed_bytes = 0;
  std::string pipeline;    ///< "planes", "scaled", "kernels", "lossy"
  std::string prediction;  ///< such as "rows+columns/2", "constant", "taps(a=1)"
  std::string signs;       ///< "raw", "rank_one", "tap", "guess"; of a lossy one "in values"
  /// "none", "in-band", "map", "rows", "columns", joined by +; of a lossy one how what is sent is
  /// told from what is not, such as "gaps, 1 % kept"
  std::string zeros;
  /// Such as "7 of 23 bits", "counted"; of a lossy one its values, such as "levels 7, buckets of
  /// 512"
  std::string fractions;
  /// Such as "huffman dynamic pairs"; of a lossy one whether its values are "coded" or "stored"
  std::string tables;
  std::uint64_t chunks = 0, constant_chunks = 0, stored_chunks = 0;
  bool checksums = false;
};

/// Reads headers only. Throws as decompress does.
TensorInfo tensor_info(std::span<const std::uint8_t> frame);

/// Dtype and shape of the tensor of a frame (no data): reads its first section only, which is far
/// less than tensor_info does. Throws as decompress.
Tensor tensor_header(std::span<const std::uint8_t> frame);

/// Size of the frame that starts here, from its first bytes; nullopt when more bytes are needed to
/// tell. Throws Error(corrupt) when this is no frame.
std::optional<std::uint64_t> frame_size(std::span<const std::uint8_t> start);

/// True if the frame is an archive (many tensors), false for a single tensor.
bool is_archive(std::span<const std::uint8_t> frame);

/// Restore elements first .. last-1 (row-major order) only; decodes the chunks that hold them, of a
/// lossy tensor all of it.
std::vector<std::uint8_t> decompress_range(std::span<const std::uint8_t> frame, std::uint64_t first,
                                           std::uint64_t last,
                                           const DecompressOptions& options = {});

/// Order-0 bound: entropy of the exponents + signs and fractions, as a share of the size (for float
/// dtypes; for others the entropy of the byte planes). Reference for `info`.
double order0_bound(const TensorView& tensor);

/// Share of elements whose bits are all zero.
double zero_share(const TensorView& tensor);

/// What the source of an archive was (docs/format.md 8).
enum class SourceKind : std::uint8_t { none = 0, safetensors = 1, npy = 2, raw = 3 };

/// Builds an archive frame, tensor by tensor, in the order of their data.
class ArchiveWriter {
 public:
  explicit ArchiveWriter(const CompressOptions& options = {});
  ~ArchiveWriter();
  /// The bytes that the source file has before its data.
  void set_source(SourceKind kind, std::span<const std::uint8_t> header);
  /// Throws Error(invalid_argument) for a name used before.
  void add(std::string_view name, const TensorView& tensor);
  /// The same by a lossy method. Tensors of other types than f32, bf16 and f16, empty ones, and
  /// those that the method sends exactly go by the options. The name is what random draws depend
  /// on. Throws as compress_lossy does, naming the tensor.
  void add_lossy(std::string_view name, const TensorView& tensor, std::string_view spec,
                 LossyReport* report = nullptr);
  /// Compressed bytes so far, for progress.
  std::uint64_t size() const;
  /// The archive. The writer is then as new, with the options it was made with.
  std::vector<std::uint8_t> finish();
  /// The same in place of what `frame` held; its memory is used for the next archive, so that a
  /// loop over steps of the same tensors allocates little.
  void finish_into(std::vector<std::uint8_t>& frame);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Reads an archive that stays in the caller's memory (a mapped file will do). Thread-safe for
/// reading.
class ArchiveReader {
 public:
  explicit ArchiveReader(std::span<const std::uint8_t> frame,
                         const DecompressOptions& options = {});
  ~ArchiveReader();
  SourceKind source_kind() const;
  const std::vector<std::uint8_t>& source_header() const;
  std::size_t size() const;                          ///< number of tensors
  const std::string& name(std::size_t index) const;  ///< in the order of their data
  std::size_t find(
      std::string_view name) const;  ///< Error(invalid_argument) with near names when absent
  TensorInfo info(std::size_t index) const;  ///< headers only
  Tensor tensor(std::size_t index) const;
  void tensor_into(std::size_t index, std::span<std::uint8_t> out) const;
  std::vector<std::uint8_t> range(std::size_t index, std::uint64_t first, std::uint64_t last) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gradwire
