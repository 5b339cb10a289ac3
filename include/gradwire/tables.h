// Train families of prebuilt code tables (docs/format.md 4.5).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gradwire/compress.h"

namespace gradwire {

/// Collects the symbol histograms that the encoder makes of tensors, then groups them: K-means over
/// probability vectors, each assigned to the table that codes it shortest.
class TableTrainer {
 public:
  explicit TableTrainer(const CompressOptions& options = {});
  ~TableTrainer();
  /// Adds a tensor whole and in pieces of 0.5 KiB to 64 KiB, so that small tensors are represented.
  void add(const TensorView& tensor);
  /// The text of static_family.inc: up to `tables` tables an alphabet, with `provenance` as a
  /// comment.
  std::string family(unsigned tables, const std::string& provenance) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// XXH3-64 of the bytes of a training file, by which the provenance of a family names it.
std::uint64_t training_file_hash(std::span<const std::uint8_t> bytes) noexcept;

/// XXH3-64 of the family that this build has, and the number of its tables.
std::uint64_t static_family_hash();
std::size_t static_family_size();

}  // namespace gradwire
